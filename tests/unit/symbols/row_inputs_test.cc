// What rows outside the dispatcher's functions are called with, from made-up code and memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "symbols/elf/kernel_types.h"
#include "symbols/torch/call_arguments.h"
#include "symbols/torch/row_inputs.h"
#include "symbols/x86/key_set.h"
#include "symbols/x86/value_sums.h"
#include "tests/unit/symbols/fake_code.h"
#include "tests/unit/symbols/fake_memory.h"
#include "userspace/base/demangle.h"

namespace proftrace {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr uint64_t kBase = 0x1000;
constexpr uint64_t kMaker = 0x9000;  // what begins a row
constexpr uint64_t kBefore = 0x9100;
constexpr uint64_t kSlow = 0x9200;  // Dispatcher::callWithDispatchKeySlowPath
constexpr char kPlainBefore[] = "_ZN2at14RecordFunction6beforeESt7variantIJEEl";
constexpr char kBeforeWithInputs[] =
    "_ZN2at14RecordFunction6beforeESt7variantIJEEN3c108ArrayRefIKNS2_6IValueEEEl";

constexpr char kSymbolicSlowPath[] =
    "_ZN3c1010Dispatcher27callWithDispatchKeySlowPathIN2at6TensorEJNS_6SymIntEEEET_RKNS_"
    "19TypedOperatorHandleIFS5_DpT0_EEERNS2_13StepCallbacksENS_14DispatchKeySetERKNS_"
    "14KernelFunctionES8_";

class RowInputsTest : public ::testing::Test {
 protected:
  void Add(const Bytes& bytes) { code_.insert(code_.end(), bytes.begin(), bytes.end()); }
  void Call(uint64_t target) {
    const auto distance = static_cast<int32_t>(target - (kBase + code_.size() + 5));
    const auto* at = reinterpret_cast<const uint8_t*>(&distance);
    code_.push_back(0xe8);
    code_.insert(code_.end(), at, at + 4);
  }
  FlowGraph Graph(std::string before = kPlainBefore) {
    image_.AddStub(kMaker, "maker");
    image_.AddStub(kBefore, std::move(before));
    image_.Add(kBase, code_);
    auto graph = FlowGraph::Build(image_, kBase, kBase + code_.size());
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }
  // A kernel gets the address of an object in the frame, into which `move` moves words after the
  // row's begin.
  void AddKernelOfAnObject(const Bytes& move) {
    Add({0x48, 0x83, 0xec, 0x48});        // sub rsp, 0x48
    Add({0xbf, 0x00, 0x00, 0x00, 0x00});  // mov edi, 0
    Call(kMaker);
    Add(move);
    Add({0x48, 0x8b, 0x3b, 0x4c, 0x89, 0xee});  // mov rdi, [rbx] (functor); mov rsi, r13
    Add({0x48, 0x8d, 0x14, 0x24});              // lea rdx, [rsp]
    Add({0xff, 0x53, 0x10, 0x48, 0x83, 0xc4, 0x48, 0xc3});  // call [rbx+0x10]; add rsp, 0x48; ret
  }
  // As GCC 11 compiles torchvision's operators: the kernel's function comes from the operator's
  // table.
  void AddIndexedKernel(const Bytes& set_r9 = {0x4d, 0x89, 0xf1},  // mov r9, r14
                        const Bytes& set_rdx = {0x48, 0x8b, 0x54, 0x24,
                                                0x38},               // mov rdx, [rsp+0x38]
                        const Bytes& set_r8 = {0x4d, 0x89, 0xe0}) {  // mov r8, r12
    Add({0x48, 0x8d, 0x7c, 0x24, 0x40, 0x48, 0x89, 0x7c, 0x24,
         0x38});  // rdi = [rsp+0x38] = rsp+0x40
    Call(kMaker);
    Add({0x80, 0xbc, 0x24, 0x80, 0, 0, 0, 0, 0x75, 0x1c});  // cmp byte [rsp+0x80], 0; jne slow
    Add({0x4d, 0x8b, 0x5c, 0xd5, 0x08});                    // mov r11, [r13+rdx*8+8]
    Add({0x49, 0x8b, 0x34, 0x24, 0x48, 0x89, 0xda});  // mov rsi, [r12] (functor); mov rdx, rbx
    Add({0x4c, 0x89, 0xf1});                          // mov rcx, r14
    Add({0xf2, 0x0f, 0x10, 0x44, 0x24, 0x30});        // movsd xmm0, [rsp+0x30]
    Add({0x4c, 0x89, 0xff, 0x41, 0xff, 0xd3, 0xc3});  // mov rdi, r15; call r11; ret
    Add(set_r9);
    Add(set_r8);
    Add({0x48, 0x89, 0xd9});  // mov rcx, rbx
    Add(set_rdx);
    Add({0x4c, 0x89, 0xff});  // mov rdi, r15
    Call(kSlow);
    Add({0xc3});
  }
  static uint32_t Maker(const FlowGraph& graph) {
    for (uint32_t i = 0; i < graph.size(); ++i) {
      if (graph.node(i).is_call && graph.node(i).instruction.target == kMaker) return i;
    }
    ADD_FAILURE() << "no call";
    return 0;
  }
  static void ExpectPlace(const abi::pt_place& place, int base,
                          const std::vector<int32_t>& offsets) {
    EXPECT_EQ(place.base, base);
    EXPECT_EQ((std::vector<int32_t>{place.offsets, place.offsets + place.count}), offsets);
  }

  FakeCode image_;
  Bytes code_;
};

constexpr int kRbx = 3;
constexpr int kRsp = 4;
constexpr int kRbp = 5;
constexpr int kR12 = 12;

TEST_F(RowInputsTest, AnArrayThatIsStoredIntoTheObject) {
  // The object is at rsp+0x100, the array at rsp+0x20, and it has three values.
  Add({0x48, 0x81, 0xec, 0x00, 0x03, 0x00, 0x00});        // sub rsp, 0x300
  Add({0x48, 0x8d, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00});  // lea rdi, [rsp+0x100]
  Call(kMaker);
  Add({0x48, 0x8d, 0x44, 0x24, 0x20});                    // lea rax, [rsp+0x20]
  Add({0x48, 0x89, 0x84, 0x24, 0xd0, 0x01, 0x00, 0x00});  // mov [rsp+0x1d0], rax
  Add({0x48, 0xc7, 0x84, 0x24, 0xd8, 0x01, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00});
  Add({0x48, 0x8d, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00});
  Call(kBefore);
  Add({0x48, 0x81, 0xc4, 0x00, 0x03, 0x00, 0x00, 0xc3});  // add rsp, 0x300; ret
  const FlowGraph graph = Graph();
  const auto inputs = FindGivenInputs(image_, graph, Maker(graph), {});
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kValues);
  ASSERT_EQ(inputs->words.size(), 2u);
  ExpectPlace(inputs->words[0], kRsp, {0x20});
  EXPECT_EQ(inputs->words[1].base, abi::PT_PLACE_CONSTANT);
  EXPECT_EQ(inputs->words[1].address, 3u);
}

TEST_F(RowInputsTest, AnArrayThatASmallFunctionWithoutANameStoresIntoTheObject) {
  constexpr uint64_t kForwarder = 0x9300;
  // rdi: the object, rsi and rdx: the array's begin and end.
  Bytes forwarder = {0x48, 0x29, 0xf2,                 // sub rdx, rsi
                     0x48, 0x89, 0xb7, 0xd0, 0, 0, 0,  // mov [rdi+0xd0], rsi
                     0x48, 0xc1, 0xfa, 0x04,           // sar rdx, 4
                     0x48, 0x89, 0x97, 0xd8, 0, 0, 0,  // mov [rdi+0xd8], rdx
                     0xe9, 0,    0,    0,    0};       // jmp before
  const auto distance = static_cast<int32_t>(kBefore - (kForwarder + forwarder.size()));
  std::memcpy(forwarder.data() + forwarder.size() - 4, &distance, sizeof(distance));
  image_.Add(kForwarder, forwarder);
  Add({0x48, 0x81, 0xec, 0x00, 0x03, 0x00, 0x00});        // sub rsp, 0x300
  Add({0x48, 0x8d, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00});  // lea rdi, [rsp+0x100]
  Call(kMaker);
  Add({0x48, 0x8d, 0x74, 0x24, 0x20, 0x48, 0x8d, 0x54, 0x24, 0x50});  // rsp+0x20, rsp+0x50
  Add({0x48, 0x8d, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00});
  Call(kForwarder);
  Add({0x48, 0x81, 0xc4, 0x00, 0x03, 0x00, 0x00, 0xc3});  // add rsp, 0x300; ret
  const FlowGraph graph = Graph();
  const auto inputs = FindGivenInputs(image_, graph, Maker(graph), {});
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kValues);
  ASSERT_EQ(inputs->words.size(), 2u);
  ExpectPlace(inputs->words[0], kRsp, {0x20});
  EXPECT_EQ(inputs->words[1].address, 3u);
}

TEST_F(RowInputsTest, ARegisterThatIsSavedBehindTheObjectIsNoInput) {
  Add({0x48, 0x81, 0xec, 0x00, 0x03, 0x00, 0x00});        // sub rsp, 0x300
  Add({0x48, 0x8d, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00});  // lea rdi, [rsp+0x100]
  Call(kMaker);
  Add({0x4c, 0x89, 0xbc, 0x24, 0x88, 0x02, 0x00, 0x00});  // mov [rsp+0x288], r15
  Add({0x48, 0x8d, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00});
  Call(kBefore);
  Add({0x48, 0x81, 0xc4, 0x00, 0x03, 0x00, 0x00, 0xc3});
  const FlowGraph graph = Graph();
  EXPECT_FALSE(FindGivenInputs(image_, graph, Maker(graph), {}));
}

TEST_F(RowInputsTest, AnArrayWhoseLengthIsNotFixedIsNotTaken) {
  Add({0x53, 0x48, 0x89, 0xfb});  // push rbx; mov rbx, rdi
  Call(kMaker);
  Add({0x48, 0x8b, 0x33, 0x48, 0x8b, 0x53, 0x08});  // mov rsi, [rbx]; mov rdx, [rbx+8]
  Call(kBefore);
  Add({0x5b, 0xc3});
  const FlowGraph graph = Graph(kBeforeWithInputs);
  const auto inputs = FindGivenInputs(image_, graph, Maker(graph), {});
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kUnknown);
}

// What torch::jit::last() comes to: rsi = [rbp+8] - 16 * rdx, by the number of values that there
// are.
const Bytes kLast = {0x48, 0x8b, 0x75, 0x08,  // mov rsi, [rbp+8]
                     0x48, 0x8b, 0x4d, 0x00,  // mov rcx, [rbp]
                     0x48, 0x29, 0xce,        // sub rsi, rcx
                     0x48, 0xc1, 0xfe, 0x04,  // sar rsi, 4
                     0x48, 0x29, 0xd6,        // sub rsi, rdx
                     0x48, 0xc1, 0xe6, 0x04,  // shl rsi, 4
                     0x48, 0x01, 0xce};       // add rsi, rcx

TEST_F(RowInputsTest, TheLastValuesOfAFramesStack) {
  Add({0x53, 0x55, 0x48, 0x89, 0xfb, 0x48, 0x89, 0xf5});  // rbx = frame, rbp = stack
  Call(kMaker);
  Add({0x48, 0x8b, 0x03, 0x48, 0x8b, 0x50, 0x40});  // mov rax, [rbx]; mov rdx, [rax+0x40]
  Add(kLast);
  Call(kBefore);
  Add({0x5d, 0x5b, 0xc3});
  const FlowGraph graph = Graph(kBeforeWithInputs);
  const auto inputs = FindGivenInputs(image_, graph, Maker(graph), {});
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kLastValues);
  ASSERT_EQ(inputs->words.size(), 2u);
  ExpectPlace(inputs->words[0], kRbp, {0});
  ExpectPlace(inputs->words[1], kRbx, {0, 0x40, 0});
}

TEST_F(RowInputsTest, ValuesThatAreNotTheLastAreNotTaken) {
  Add({0x55, 0x48, 0x89, 0xf5});
  Call(kMaker);
  Add({0x48, 0x8b, 0x13});  // mov rdx, [rbx]
  Add(kLast);
  Add({0x48, 0x83, 0xee, 0x10});  // sub rsi, 16: one value lower
  Call(kBefore);
  Add({0x5d, 0xc3});
  const FlowGraph graph = Graph(kBeforeWithInputs);
  const auto inputs = FindGivenInputs(image_, graph, Maker(graph), {});
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kUnknown);
}

TEST_F(RowInputsTest, LastValuesWhoseNumberIsInTheCode) {
  Add({0x55, 0x48, 0x89, 0xf5});
  Call(kMaker);
  Add({0x48, 0x8b, 0x75, 0x08, 0x48, 0x83, 0xee, 0x30});  // rsi = [rbp+8] - 48
  Add({0xba, 0x03, 0x00, 0x00, 0x00});                    // mov edx, 3
  Call(kBefore);
  Add({0x5d, 0xc3});
  const FlowGraph graph = Graph(kBeforeWithInputs);
  const auto inputs = FindGivenInputs(image_, graph, Maker(graph), {});
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kLastValues);
  ExpectPlace(inputs->words[0], kRbp, {0});
  EXPECT_EQ(inputs->words[1].base, abi::PT_PLACE_CONSTANT);
  EXPECT_EQ(inputs->words[1].address, 3u);
}

// peekSlice(stack, from the top, values, number) of its own: 2.1 and 2.8 have one that is not
// inlined.
TEST_F(RowInputsTest, AFunctionThatTakesTheLastValuesIsFollowed) {
  constexpr uint64_t kSlice = 0x8000;
  Add({0x53, 0x55, 0x48, 0x89, 0xfb, 0x48, 0x89, 0xf5});
  Call(kMaker);
  Add({0x48, 0x8b, 0x43, 0x08, 0x48, 0x89, 0xef, 0x48, 0x89, 0xc6});  // rdi = rbp, rsi = [rbx+8]
  Call(kSlice);
  Add({0x48, 0x89, 0xc6});  // mov rsi, rax; rdx is what it returned, too
  Call(kBefore);
  Add({0x5d, 0x5b, 0xc3});
  // mov rax, rsi; mov rdx, rsi; shl rax, 4; neg rax; add rax, [rdi+8]; ret
  image_.Add(kSlice, {0x48, 0x89, 0xf0, 0x48, 0x89, 0xf2, 0x48, 0xc1, 0xe0, 0x04, 0x48, 0xf7, 0xd8,
                      0x48, 0x03, 0x47, 0x08, 0xc3});
  const FlowGraph graph = Graph(kBeforeWithInputs);
  const auto inputs = FindGivenInputs(image_, graph, Maker(graph), {});
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kLastValues);
  ExpectPlace(inputs->words[0], kRbp, {0});
  ExpectPlace(inputs->words[1], kRbx, {8, 0});
}

TEST_F(RowInputsTest, AnObjectIsTheSameOneByEachRegister) {
  // Its address is in r14 and in a word of the frame; it is filled by rbp.
  Add({0x55, 0x48, 0x89, 0xe5});                                      // push rbp; mov rbp, rsp
  Add({0x48, 0x81, 0xec, 0x00, 0x04, 0x00, 0x00});                    // sub rsp, 0x400
  Add({0x4c, 0x8d, 0xb5, 0x00, 0xff, 0xff, 0xff});                    // lea r14, [rbp-0x100]
  Add({0x4c, 0x89, 0xb5, 0x00, 0xfe, 0xff, 0xff, 0x4c, 0x89, 0xf7});  // [rbp-0x200] = r14
  Call(kMaker);
  Add({0x48, 0x8b, 0x45, 0xf0, 0x48, 0x8b, 0x40, 0x08});  // rax = [[rbp-16]+8]
  Add({0x48, 0x83, 0xe8, 0x10});                          // sub rax, 16
  Add({0x48, 0x89, 0x45, 0xd0});                          // mov [rbp-0x30], rax
  Add({0x48, 0xc7, 0x45, 0xd8, 0x01, 0x00, 0x00, 0x00});  // mov qword [rbp-0x28], 1
  Add({0x48, 0x8b, 0xbd, 0x00, 0xfe, 0xff, 0xff});        // mov rdi, [rbp-0x200]
  Call(kBefore);
  Add({0xc9, 0xc3});  // leave; ret
  const FlowGraph graph = Graph();
  const auto inputs = FindGivenInputs(image_, graph, Maker(graph), {});
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kLastValues);
  ExpectPlace(inputs->words[0], kRsp, {0x3f0, 0});
  EXPECT_EQ(inputs->words[1].address, 1u);
}

TEST(ValueSumsTest, EqualSumsAreEqualValues) {
  ValueSums sums;
  const Value begin{3, {0, 0}};
  const Value end{3, {8, 0}};
  const Value bytes = sums.Add(end, begin, -1);
  EXPECT_EQ(bytes, sums.Add(sums.Add(Value{Value::kConstant, {0}}, begin, -1), end, 1));
  EXPECT_EQ(sums.Add(begin, bytes, 1), end);
  EXPECT_EQ(sums.Add(sums.Divide(bytes, 4), Value{Value::kConstant, {2}}, 1).offsets.back(), 2);
  EXPECT_EQ(sums.Add(begin, sums.Divide(bytes, 4), 16), end);
  EXPECT_EQ(sums.Add(bytes, bytes, -1), (Value{Value::kConstant, {0}}));
}

TEST(ValueSumsTest, WhatIsNoWholeNumberOrTooLargeIsUnknown) {
  ValueSums sums;
  const Value word{3, {0, 0}};
  EXPECT_FALSE(sums.Divide(Value{Value::kConstant, {3}}, 1).known());
  EXPECT_FALSE(sums.Divide(sums.Divide(word, 8), 1).known());
  EXPECT_FALSE(sums.Add(word, Value{Value::kConstant, {INT64_MAX}}, 1).known());
  EXPECT_FALSE(sums.Add(word, Value(), 1).known());
  Value large = word;
  for (int i = 0; i < 8; ++i) large = sums.Add(large, large, 256);
  EXPECT_FALSE(large.known());
}

// As GCC compiles two RECORD_FUNCTIONs: the first row's inputs are not clear, the second has none.
TEST_F(RowInputsTest, WhatAnotherRowHasIsNotTaken) {
  Add({0x48, 0x81, 0xec, 0x00, 0x03, 0x00, 0x00});        // sub rsp, 0x300
  Add({0x48, 0x8d, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00});  // lea rdi, [rsp+0x100]
  Call(kMaker);
  Add({0x85, 0xc0, 0x74, 0x1d});                          // test eax, eax; je behind the call
  Add({0x48, 0x89, 0x84, 0x24, 0xd0, 0x01, 0x00, 0x00});  // mov [rsp+0x1d0], rax
  Add({0x48, 0x89, 0x8c, 0x24, 0xd8, 0x01, 0x00, 0x00});  // mov [rsp+0x1d8], rcx
  Add({0x48, 0x8d, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00});
  Call(kBefore);
  Add({0x48, 0x8d, 0x7c, 0x24, 0x20});  // lea rdi, [rsp+0x20]
  Call(kMaker);
  Add({0x48, 0xc7, 0x84, 0x24, 0xd0, 0, 0, 0, 0, 0, 0, 0});  // mov [rsp+0xd0], 0
  Add({0x48, 0xc7, 0x84, 0x24, 0xd8, 0, 0, 0, 0, 0, 0, 0});
  Add({0x48, 0x8d, 0x7c, 0x24, 0x20});
  Call(kBefore);
  Add({0x48, 0x81, 0xc4, 0x00, 0x03, 0x00, 0x00, 0xc3});
  const FlowGraph graph = Graph();
  const auto inputs = FindGivenInputs(image_, graph, Maker(graph), {kMaker});
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kUnknown);
}

TEST_F(RowInputsTest, WordsOfAnUnboxedKernel) {
  Call(kMaker);
  Add({0x48, 0x8b, 0x3b, 0x4c, 0x89, 0xe6});        // mov rdi, [rbx] (functor); mov rsi, r12
  Add({0x48, 0x8d, 0x54, 0x24, 0x20});              // lea rdx, [rsp+0x20]
  Add({0x48, 0x8b, 0x4d, 0x10, 0x45, 0x31, 0xc0});  // mov rcx, [rbp+0x10]; xor r8d, r8d
  Add({0xff, 0x53, 0x10, 0xc3});                    // call [rbx+0x10]; ret
  const FlowGraph graph = Graph();
  const auto inputs = FindCallInputs(graph, Maker(graph));
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kKernel);
  ASSERT_EQ(inputs->words.size(), size_t{PT_ROW_WORDS});
  ExpectPlace(inputs->words[abi::PT_RDX], kRsp, {0x20});
  ExpectPlace(inputs->words[abi::PT_RCX], kRbp, {0x10, 0});
  EXPECT_EQ(inputs->words[abi::PT_R8].base, abi::PT_PLACE_CONSTANT);
  EXPECT_EQ(inputs->words[abi::PT_R9].base, abi::PT_PLACE_UNKNOWN);  // lost in the call
}

// As GCC 11 compiles torchvision's operators: the kernel's function comes from the operator's
// table.
TEST_F(RowInputsTest, WordsOfAKernelThatTheSlowPathNames) {
  AddIndexedKernel();
  image_.AddStub(kSlow, "_ZN3c1010Dispatcher27callWithDispatchKeySlowPathIN2at6TensorEJdEEE");
  const FlowGraph graph = Graph();
  const auto inputs = FindCallInputs(graph, Maker(graph));
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kKernel);
  ASSERT_EQ(inputs->words.size(), size_t{PT_ROW_WORDS});
  ExpectPlace(inputs->words[0], kRsp, {0x30, 0});  // the first floating-point argument
  ExpectPlace(inputs->words[abi::PT_RCX], 14, {0});
}

// As in torchvision's operators with numbers that may be symbolic: each is the address of a copy.
TEST_F(RowInputsTest, CopiesOfSymbolicNumbers) {
  AddIndexedKernel({0x4c, 0x89, 0x6c, 0x24, 0x10,    // mov [rsp+0x10], r13
                    0x4c, 0x8d, 0x4c, 0x24, 0x10});  // lea r9, [rsp+0x10]
  image_.AddStub(kSlow, kSymbolicSlowPath);
  const FlowGraph graph = Graph();
  const auto inputs = FindCallInputs(graph, Maker(graph));
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kKernel);
  EXPECT_EQ(inputs->type, "at::Tensor (c10::SymInt)");
  ASSERT_EQ(inputs->words.size(), size_t{PT_ROW_WORDS});
  ExpectPlace(inputs->words[abi::PT_R9], 13, {0});
  EXPECT_TRUE(inputs->words[abi::PT_R9].is_content);
}

// c10::optional, before torch 2.2: its flag is its first word, here at rsp+0x40.
TEST_F(RowInputsTest, CopiesOfSymbolicNumbersWhereTheOptionalHasItsFlagFirst) {
  AddIndexedKernel({0x4c, 0x89, 0x6c, 0x24, 0x10,    // mov [rsp+0x10], r13
                    0x4c, 0x8d, 0x4c, 0x24, 0x10},   // lea r9, [rsp+0x10]
                   {0x48, 0x8d, 0x54, 0x24, 0x48});  // lea rdx, [rsp+0x48]
  image_.AddStub(kSlow, kSymbolicSlowPath);
  const FlowGraph graph = Graph();
  const auto inputs = FindCallInputs(graph, Maker(graph));
  ASSERT_TRUE(inputs);
  ASSERT_EQ(inputs->words.size(), size_t{PT_ROW_WORDS});
  ExpectPlace(inputs->words[abi::PT_R9], 13, {0});
}

// As clang -O3 compiles them: the kernel's address is a sum, which is not followed.
TEST_F(RowInputsTest, TheKeySetOfAKernelThatIsNotKnown) {
  AddIndexedKernel({0x4d, 0x89, 0xf1},              // mov r9, r14
                   {0x48, 0x8b, 0x54, 0x24, 0x38},  // mov rdx, [rsp+0x38]
                   {0x4c, 0x8d, 0x04, 0x2b});       // lea r8, [rbx+rbp]
  image_.AddStub(kSlow, kSymbolicSlowPath);
  const FlowGraph graph = Graph();
  const auto keys = FindKeySet(graph, Maker(graph));
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->reg, kRbx);
}

TEST_F(RowInputsTest, OfASlowPathWhoseTypeIsNotToldNothingIsFound) {
  AddIndexedKernel();
  image_.AddStub(kSlow,
                 "_ZN3c1010Dispatcher27callWithDispatchKeySlowPathIN2at6TensorEJNS_6SymIntEEEE");
  const FlowGraph graph = Graph();
  EXPECT_FALSE(FindCallInputs(graph, Maker(graph)));
}

// As in c10d's alltoall_base: behind the row's begin a std::vector is moved into the argument, its
// first two words at once. It is read where it lies before.
TEST_F(RowInputsTest, AnArgumentThatIsMovedFromTheFrame) {
  // [rsp] = [rsp+0x20], by xmm0
  AddKernelOfAnObject({0x66, 0x0f, 0x6f, 0x44, 0x24, 0x20, 0x0f, 0x29, 0x04, 0x24});
  const FlowGraph graph = Graph();
  const auto inputs = FindCallInputs(graph, Maker(graph));
  ASSERT_TRUE(inputs);
  ASSERT_EQ(inputs->words.size(), size_t{PT_ROW_WORDS});
  ExpectPlace(inputs->words[abi::PT_RDX], kRsp, {0x20});
  EXPECT_FALSE(inputs->words[abi::PT_RDX].is_content);
}

// Only the first word of such an argument is known.
TEST_F(RowInputsTest, AnArgumentWhoseWordsComeFromTwoPlaces) {
  // [rsp] = [rsp+0x20]; [rsp+8] = [rsp+0x30]
  AddKernelOfAnObject({0x48, 0x8b, 0x44, 0x24, 0x20, 0x48, 0x89, 0x04, 0x24, 0x48, 0x8b, 0x44, 0x24,
                       0x30, 0x48, 0x89, 0x44, 0x24, 0x08});
  const FlowGraph graph = Graph();
  const auto inputs = FindCallInputs(graph, Maker(graph));
  ASSERT_TRUE(inputs);
  ASSERT_EQ(inputs->words.size(), size_t{PT_ROW_WORDS});
  ExpectPlace(inputs->words[abi::PT_RDX], kRsp, {0x20, 0});
  EXPECT_TRUE(inputs->words[abi::PT_RDX].is_content);
}

// As in c10d's barrier: the address of the tensor that the kernel gets lies in the frame from
// before, and what is there is stored behind the row's begin.
TEST_F(RowInputsTest, AnArgumentThatIsMadeAtAnAddressFromBefore) {
  Add({0x48, 0x83, 0xec, 0x48});        // sub rsp, 0x48
  Add({0x48, 0x8d, 0x44, 0x24, 0x20});  // lea rax, [rsp+0x20]
  Add({0x48, 0x89, 0x44, 0x24, 0x38});  // mov [rsp+0x38], rax
  Add({0xbf, 0x00, 0x00, 0x00, 0x00});  // mov edi, 0
  Call(kMaker);
  Add({0x4c, 0x89, 0x64, 0x24, 0x20});                    // mov [rsp+0x20], r12
  Add({0x48, 0x8b, 0x3b, 0x4c, 0x89, 0xee});              // mov rdi, [rbx] (functor); mov rsi, r13
  Add({0x48, 0x8b, 0x54, 0x24, 0x38});                    // mov rdx, [rsp+0x38]
  Add({0xff, 0x53, 0x10, 0x48, 0x83, 0xc4, 0x48, 0xc3});  // call [rbx+0x10]; add rsp, 0x48; ret
  const FlowGraph graph = Graph();
  const auto inputs = FindCallInputs(graph, Maker(graph));
  ASSERT_TRUE(inputs);
  ASSERT_EQ(inputs->words.size(), size_t{PT_ROW_WORDS});
  ExpectPlace(inputs->words[abi::PT_RDX], kR12, {0});
  EXPECT_TRUE(inputs->words[abi::PT_RDX].is_content);
}

TEST_F(RowInputsTest, TheStackOfABoxedCall) {
  Call(kMaker);
  Add({0x48, 0x8b, 0x3b, 0x4c, 0x89, 0xf1, 0xff, 0x53, 0x08, 0xc3});  // mov rcx, r14; call [rbx+8]
  const FlowGraph graph = Graph();
  const auto inputs = FindCallInputs(graph, Maker(graph));
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->kind, RowInputKind::kStack);
  ASSERT_EQ(inputs->words.size(), 1u);
  ExpectPlace(inputs->words[0], 14, {0});
}

TEST_F(RowInputsTest, AStackThatIsMadeForTheCallIsNotThereYet) {
  Call(kMaker);
  Add({0x48, 0xc7, 0x44, 0x24, 0x20, 0, 0, 0, 0});                          // mov [rsp+0x20], 0
  Add({0x48, 0x8b, 0x3b, 0x48, 0x8d, 0x4c, 0x24, 0x20, 0xff, 0x53, 0x08});  // rcx = rsp+0x20
  Add({0xc3});
  const FlowGraph graph = Graph();
  EXPECT_FALSE(FindCallInputs(graph, Maker(graph)));
}

TEST(KernelTypesTest, AreWhereTheDispatcherNotesThem) {
  const std::string type = "FN2at6TensorERKS0_S2_lE";
  FakeMemory memory;
  for (const uint64_t op : {0x20000, 0x30000}) {
    for (uint64_t at = 0; at < 8192; at += 8) memory.PutWord(op + at, 0);
    memory.PutWord(op + 0x100, 0x50001);  // no object
    memory.PutWord(op + 0x108, 0x60000);
  }
  memory.PutWord(0x60000, 0x1);
  memory.PutWord(0x60008, 0x61000);  // a type_info of something else
  for (uint64_t at = 0; at < 4096; at += 8) memory.PutWord(0x61000 + at, 0x6854534e);
  memory.PutWord(0x20000 + 0x200, 0x70000);
  memory.PutWord(0x70000, 0x1);
  memory.PutWord(0x70008, 0x71000);
  for (uint64_t at = 0; at < 4096; at += 8) memory.PutWord(0x71000 + at, 0);
  memory.Put(0x71000, type.data(), type.size());
  KernelTypes types(memory);
  EXPECT_FALSE(types.TypeOf(0x30000));
  EXPECT_EQ(types.TypeOf(0x20000), type);
  EXPECT_FALSE(types.TypeOf(0x30000));
  EXPECT_FALSE(types.TypeOf(0x90000));  // nothing there
}

std::optional<std::vector<abi::pt_argument>> PlacesOfType(const std::string& mangled,
                                                          OptionalForm form) {
  return PlaceKernelArguments(Demangle(mangled).value_or(""), form);
}

TEST(KernelArgumentsTest, ComeBehindTheKernelAndItsKeys) {
  const auto places = PlacesOfType(
      "FSt5tupleIJbEEN3c108ArrayRefIN2at6TensorEEERKNS1_13intrusive_ptrIiiEERKSt8optionalIS4_EblE",
      OptionalForm::kStd);
  ASSERT_TRUE(places);
  ASSERT_EQ(places->size(), 5u);
  // rdi: the result's place, rsi: the kernel, rdx: the keys.
  EXPECT_EQ((*places)[0].kind, abi::PT_ARGUMENT_TENSORS);
  EXPECT_EQ((*places)[0].place, abi::PT_RCX);
  EXPECT_EQ((*places)[0].second, abi::PT_R8);
  EXPECT_EQ((*places)[1].kind, abi::PT_ARGUMENT_OTHER);
  EXPECT_EQ((*places)[2].kind, abi::PT_ARGUMENT_TENSOR);
  EXPECT_EQ((*places)[2].flag, abi::PT_ARGUMENT_IN_MEMORY);
  EXPECT_EQ((*places)[2].place, abi::PT_ARGUMENT_STACK);
  EXPECT_EQ((*places)[3].kind, abi::PT_ARGUMENT_BOOL);
  EXPECT_EQ((*places)[4].place, abi::PT_ARGUMENT_STACK + 2);
  const auto plain = PlacesOfType("FvRKN2at6TensorEE", OptionalForm::kStd);
  ASSERT_TRUE(plain && plain->size() == 1);
  EXPECT_EQ((*plain)[0].place, abi::PT_RDX);
  const auto doubles = PlacesOfType("FvdRKN2at6TensorEdE", OptionalForm::kStd);
  ASSERT_TRUE(doubles && doubles->size() == 3);
  EXPECT_EQ((*doubles)[0].place, 0);  // where the kernel's word would be
  EXPECT_EQ((*doubles)[1].place, abi::PT_RDX);
  EXPECT_EQ((*doubles)[2].place, 1);
  EXPECT_FALSE(PlacesOfType("FvdddE", OptionalForm::kStd));  // no place for a third one
  EXPECT_FALSE(PlacesOfType("Fv3FooE", OptionalForm::kStd));
  EXPECT_FALSE(PlacesOfType("", OptionalForm::kStd));
}

}  // namespace
}  // namespace proftrace
