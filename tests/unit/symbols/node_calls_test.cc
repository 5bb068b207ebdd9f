// Autograd nodes that are called with Node::operator() inlined, from made-up code.
#include <absl/container/flat_hash_set.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "symbols/plan/row_plan.h"
#include "symbols/torch/node_calls.h"
#include "symbols/torch/row_extent.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

constexpr uint64_t kBase = 0x1000;
constexpr uint64_t kCallbacks = 0x9000;  // getStepCallbacksUnlessEmpty
constexpr uint64_t kOther = 0x9100;
constexpr int kR12 = 12;

using Bytes = std::vector<uint8_t>;

class NodeCallsTest : public ::testing::Test {
 protected:
  void Add(const Bytes& bytes) { code_.insert(code_.end(), bytes.begin(), bytes.end()); }
  void Call(uint64_t target) {
    const auto distance = static_cast<uint32_t>(target - (kBase + code_.size() + 5));
    code_.push_back(0xe8);
    for (int i = 0; i < 4; ++i) code_.push_back(static_cast<uint8_t>(distance >> 8 * i));
  }
  // As GCC 13 compiles THPCppFunction_call, whose frame is found by rbp. `scope`: what sets esi.
  void AddByFramePointer(const Bytes& scope) {
    Add({0x55, 0x48, 0x89, 0xe5, 0x41, 0x54});        // push rbp; mov rbp, rsp; push r12
    Add({0x48, 0x81, 0xec, 0x08, 0x03, 0x00, 0x00});  // sub rsp, 0x308
    Add({0x4c, 0x8b, 0x67, 0x10});                    // mov r12, [rdi+0x10]
    Add({0x48, 0x8d, 0xbd, 0x00, 0xfe, 0xff, 0xff});  // lea rdi, [rbp-0x200]
    Add(scope);
    Call(kCallbacks);
    Add({0x80, 0xbd, 0x60, 0xfe, 0xff, 0xff, 0x00});  // cmp byte [rbp-0x1a0], 0
    Add({0x75, 0x34});                                // jne slow
    Add({0x48, 0x8d, 0x85, 0x30, 0xfd, 0xff, 0xff});  // lea rax, [rbp-0x2d0]
    Add({0x48, 0x8d, 0xbd, 0xb0, 0xfd, 0xff, 0xff});  // lea rdi, [rbp-0x250]
    Add({0x4c, 0x89, 0xe6});                          // mov rsi, r12
    Add({0x48, 0x89, 0x85, 0x00, 0xfd, 0xff, 0xff});  // mov [rbp-0x300], rax
    Add({0x48, 0x89, 0xc2});                          // mov rdx, rax
    Add({0x49, 0x8b, 0x04, 0x24, 0xff, 0x50, 0x60});  // mov rax, [r12]; call [rax+0x60]
    meet_ = kBase + code_.size();
    Add({0x80, 0xbd, 0x60, 0xfe, 0xff, 0xff, 0x00});  // meet: cmp byte [rbp-0x1a0], 0
    Add({0x74, 0x01, 0x90});                          // je out; nop
    Add({0x48, 0x8d, 0x65, 0xf8});                    // out: lea rsp, [rbp-8]
    Add({0x41, 0x5c, 0x5d, 0xc3});                    // pop r12; pop rbp; ret
    Call(kOther);                                     // slow: RecordFunction(StepCallbacks&&)
    Add({0x49, 0x8b, 0x04, 0x24});                    // mov rax, [r12]
    Add({0x48, 0x8d, 0xbd, 0xb0, 0xfd, 0xff, 0xff});  // lea rdi, [rbp-0x250]
    Add({0x4c, 0x89, 0xe6, 0xff, 0x50, 0x10});        // mov rsi, r12; call [rax+0x10] (name)
    Add({0x48, 0x8d, 0x95, 0x30, 0xfd, 0xff, 0xff});  // lea rdx, [rbp-0x2d0]
    Add({0x48, 0x8d, 0xbd, 0xb0, 0xfd, 0xff, 0xff});  // lea rdi, [rbp-0x250]
    Add({0x4c, 0x89, 0xe6});                          // mov rsi, r12
    Add({0x49, 0x8b, 0x04, 0x24, 0xff, 0x50, 0x60});  // mov rax, [r12]; call [rax+0x60]
    Add({0xeb, 0xbe});                                // jmp meet
  }
  FlowGraph Graph() {
    image_.Add(kBase, code_);
    image_.AddStub(kCallbacks, "callbacks");
    image_.AddStub(kOther, "other");
    auto graph = FlowGraph::Build(image_, kBase, kBase + code_.size());
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }
  static uint32_t CallbacksCall(const FlowGraph& graph) {
    for (uint32_t i = 0; i < graph.size(); ++i) {
      if (graph.node(i).instruction.target == kCallbacks) return i;
    }
    ADD_FAILURE() << "no call";
    return 0;
  }
  static void ExpectPlace(const abi::pt_place& place, int base, const std::vector<int32_t>& steps) {
    EXPECT_EQ(place.base, base);
    EXPECT_EQ(place.form, abi::PT_PLACE_WORD);
    EXPECT_EQ(std::vector<int32_t>(place.offsets, place.offsets + place.count), steps);
  }

  FakeCode image_;
  Bytes code_;
  uint64_t meet_ = 0;
};

const Bytes kBackward = {0xbe, 0x01, 0x00, 0x00, 0x00};  // mov esi, 1
const Bytes kFunction = {0x31, 0xf6};                    // xor esi, esi

TEST_F(NodeCallsTest, TheNodeIsWhatIsCalledWhereThereAreNoCallbacks) {
  AddByFramePointer(kBackward);
  const FlowGraph graph = Graph();
  const uint32_t call = CallbacksCall(graph);
  const auto called = FindCalledNode(graph, call);
  ASSERT_TRUE(called);
  ExpectPlace(called->node, kR12, {0});
  EXPECT_EQ(called->inputs.kind, RowInputKind::kTensors);
  ASSERT_EQ(called->inputs.words.size(), 1u);
  ExpectPlace(called->inputs.words[0], kRbp, {-0x2d0});
  const auto end = FindMeetingPoint(graph, call);
  ASSERT_TRUE(end);
  EXPECT_EQ(graph.node(*end).instruction.address, meet_ + 7);  // the jump behind the comparison
}

TEST_F(NodeCallsTest, OtherScopesHaveNoNodes) {
  AddByFramePointer(kFunction);
  const FlowGraph graph = Graph();
  EXPECT_FALSE(FindCalledNode(graph, CallbacksCall(graph)));
}

// sub rsp, 0x88; mov [rsp+0x18], rdi; mov rbx, rdx; lea rdi, [rsp+0x20]; mov esi, 1
const Bytes kByStackPointer = {0x48, 0x81, 0xec, 0x88, 0x00, 0x00, 0x00, 0x48, 0x89,
                               0x7c, 0x24, 0x18, 0x48, 0x89, 0xd3, 0x48, 0x8d, 0x7c,
                               0x24, 0x20, 0xbe, 0x01, 0x00, 0x00, 0x00};
// call [rax+0x60]; cmp byte [rsp+0x80], 0; je out; nop; out: add rsp, 0x88; ret
const Bytes kAppliesAndEnds = {0xff, 0x50, 0x60, 0x80, 0xbc, 0x24, 0x80, 0x00, 0x00, 0x00, 0x00,
                               0x74, 0x01, 0x90, 0x48, 0x81, 0xc4, 0x88, 0x00, 0x00, 0x00, 0xc3};

TEST_F(NodeCallsTest, ANodeMayLieInAFrameWithoutAFramePointer) {
  Add(kByStackPointer);
  Call(kCallbacks);
  Add({0x48, 0x8b, 0x74, 0x24, 0x18, 0x48, 0x8d, 0x7c, 0x24, 0x60});  // rsi = [rsp+0x18]; lea rdi
  Add({0x48, 0x89, 0xda, 0x48, 0x8b, 0x06});  // mov rdx, rbx; mov rax, [rsi]
  Add(kAppliesAndEnds);
  const FlowGraph graph = Graph();
  const auto called = FindCalledNode(graph, CallbacksCall(graph));
  ASSERT_TRUE(called);
  ExpectPlace(called->node, kRsp, {0x18, 0});
  ExpectPlace(called->inputs.words[0], 3, {0});  // rbx
}

TEST_F(NodeCallsTest, AVirtualFunctionOfAnotherObjectIsNotApply) {
  Add(kByStackPointer);
  Call(kCallbacks);
  Add({0x48, 0x8b, 0x74, 0x24, 0x18, 0x48, 0x8d, 0x7c, 0x24, 0x60});
  Add({0x48, 0x89, 0xda, 0x48, 0x8b, 0x03});  // mov rdx, rbx; mov rax, [rbx]
  Add(kAppliesAndEnds);
  const FlowGraph graph = Graph();
  EXPECT_FALSE(FindCalledNode(graph, CallbacksCall(graph)));
}

constexpr uint64_t kBefore = 0x9200;  // RecordFunction::before(std::string, int64_t)
constexpr uint64_t kMakesRow = 0x9300;

class NodeSequenceTest : public NodeCallsTest {
 protected:
  std::optional<uint16_t> Find() {
    image_.AddStub(kBefore, "_ZN2at14RecordFunction6beforeENSt7__cxx1112basic_stringIcEEl");
    image_.AddStub(kMakesRow, "_ZN2at14RecordFunctionC1EONS_13StepCallbacksE");
    return FindNodeSequence(Graph());
  }
};

TEST_F(NodeSequenceTest, ItIsReadWhereTheRowGetsIt) {
  Add({0x55, 0x53, 0x48, 0x89, 0xf3});              // push rbp; push rbx; mov rbx, rsi
  Add({0x48, 0x81, 0xec, 0x88, 0x00, 0x00, 0x00});  // sub rsp, 0x88
  Call(kOther);
  Add({0x48, 0x8d, 0x7c, 0x24, 0x40, 0x48, 0x8d, 0x74, 0x24, 0x20});  // lea rdi; lea rsi
  Call(kMakesRow);
  Add({0x48, 0x8b, 0x6b, 0x18});  // mov rbp, [rbx+0x18]
  Call(kOther);
  Add({0x48, 0x89, 0xea});                                            // mov rdx, rbp
  Add({0x48, 0x8d, 0x74, 0x24, 0x20, 0x48, 0x8d, 0x7c, 0x24, 0x40});  // lea rsi; lea rdi
  Call(kBefore);
  Add({0x48, 0x81, 0xc4, 0x88, 0x00, 0x00, 0x00, 0x5b, 0x5d, 0xc3});  // add rsp; pop; pop; ret
  EXPECT_EQ(Find(), 24);
}

TEST_F(NodeSequenceTest, ANumberThatIsNoFieldOfTheNodeIsNotKnown) {
  Add({0x53, 0x48, 0x89, 0xf3});  // push rbx; mov rbx, rsi
  Call(kMakesRow);
  Add({0x31, 0xd2});  // xor edx, edx
  Call(kBefore);
  Add({0x5b, 0xc3});  // pop rbx; ret
  EXPECT_FALSE(Find());
}

// Its handler may be in a cold part.
extern "C" __attribute__((noinline)) int NodeCallsTestCatches(int value) {
  // Not known here, so that the call stays where it is.
  static int (*volatile successor)(int) = [](int number) {
    if (number > 2) throw std::runtime_error("large");
    return number + 1;
  };
  try {
    return successor(value);
  } catch (const std::runtime_error&) {
    return -value;
  }
}

// Its landing pad, of which there is only the jump here, goes on in another part.
asm(R"(
  .pushsection .text.unlikely, "ax", @progbits
NodeCallsTestPart:
  .cfi_startproc
  nop
  call __cxa_begin_catch@PLT
  ret
  .cfi_endproc
  .popsection
  .pushsection .text, "ax", @progbits
  .globl NodeCallsTestJumps
  .type NodeCallsTestJumps, @function
NodeCallsTestJumps:
  .cfi_startproc
  ret
  jmp NodeCallsTestPart
  .cfi_endproc
  .size NodeCallsTestJumps, . - NodeCallsTestJumps
  .popsection
)");

class FindCatchesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FindCatchesTest, FindsTheOneCallInAnyPart) {
  ASSERT_EQ(NodeCallsTestCatches(3), -3);
  auto file = ElfFile::Open(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
  ASSERT_TRUE(file.ok()) << file.status();
  uint64_t address = 0;
  (*file)->ForEachSymbol(true, [&](const ElfSymbol& symbol) {
    if (symbol.name() == GetParam()) address = symbol.address;
  });
  ASSERT_NE(address, 0u);
  const ModuleImage image(file->get());
  const auto function = image.FunctionAt(address);
  ASSERT_TRUE(function);
  const std::vector<uint64_t> catches = FindCatches(image, *function);
  ASSERT_EQ(catches.size(), 1u);
  uint8_t bytes[kMaxInstructionBytes];
  const size_t got = image.ReadCode(catches[0], bytes, sizeof(bytes));
  const std::vector<Instruction> call = DecodeAll(bytes, got, catches[0]);
  ASSERT_FALSE(call.empty());
  EXPECT_EQ(call[0].kind, InstructionKind::kCall);
}

INSTANTIATE_TEST_SUITE_P(Parts, FindCatchesTest,
                         ::testing::Values("NodeCallsTestCatches", "NodeCallsTestJumps"));

TEST(RowPlannerTest, APlacedNodeHasTheOffsetsOfItsVersion) {
  ModuleFacts facts;
  RowProbe begin{0x70, abi::PT_ROLE_PLACED_NODE, 0, 0, abi::pt_place{}, {}, {}};
  begin.place->base = kR12;
  begin.place->count = 1;
  facts.rows.push_back({"f", "", {begin, {0x80, abi::PT_ROLE_END, 0, 0, {}, {}, {}}}});
  facts.row_ends.push_back({0x90, abi::PT_ROLE_CATCH, 0, 0, {}, {}, {}});
  ProbePlan plan;
  plan.sites.emplace_back();
  absl::flat_hash_set<uint64_t> taken;
  std::vector<ProbePoint> points;
  RowPlanner({.python_object = 472, .python_text = 0, .node = {24, 48}}, nullptr, &plan)
      .AddRows(facts, 0, &taken, &points);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(RoleOf(points[0]), abi::PT_ROLE_PLACED_NODE);
  EXPECT_EQ(points[0].cookie >> 32, 472u);
  ASSERT_EQ(points[0].place, 1);
  EXPECT_EQ(plan.places[0].base, kR12);
  EXPECT_EQ(plan.places[0].address, uint64_t{24 / 8} << 48 | uint64_t{48 / 8} << 56);
  ASSERT_EQ(plan.sites.size(), 2u);
  EXPECT_EQ(plan.sites[1].label.kind, SpanKind::kAutograd);
  EXPECT_EQ(plan.sites[1].label.scope, Scope::kBackwardFunction);
  EXPECT_EQ(SiteOf(points[0]), SiteOf(points[1]));
  EXPECT_EQ(SiteOf(points[2]), 0);  // a catch ends whatever it passes
}

}  // namespace
}  // namespace proftrace
