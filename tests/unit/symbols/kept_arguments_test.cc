// Where functions keep their arguments at a later call, and what a probe there reads of them.
#include <gtest/gtest.h>

#include "symbols/plan/reduced_plan.h"
#include "symbols/x86/call_inputs.h"
#include "symbols/x86/kept_arguments.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

constexpr uint64_t kStart = 0x1000;
constexpr uint64_t kTarget = 0x2000;
constexpr uint64_t kOther = 0x3000;
constexpr uint8_t kXmm0 = KeptPiece::kVectorSource;

KeptPiece InRegister(uint8_t source, uint8_t first, uint8_t count, unsigned reg) {
  return {source, first, count, false, static_cast<int16_t>(8 * reg)};
}
KeptPiece InFrame(uint8_t source, uint8_t first, uint8_t count, int16_t offset) {
  return {source, first, count, true, offset};
}

// At the code's only call of kTarget.
KeptArguments Kept(std::vector<uint8_t> bytes, const char* other = "") {
  FakeCode image;
  image.Add(kOther, {0xc3}, other);
  const uint64_t end = kStart + bytes.size();
  image.Add(kStart, std::move(bytes));
  const auto graph = FlowGraph::Build(image, kStart, end);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  for (uint32_t i = 0; i < graph->size(); ++i) {
    if (graph->node(i).is_call && graph->node(i).instruction.target == kTarget) {
      return FindKeptArguments(*graph, i);
    }
  }
  ADD_FAILURE() << "no call";
  return {};
}

TEST(KeptArgumentsTest, AreInRegistersAndInTheFrame) {
  // push rbp; mov rbp, rsp; push r12; mov r12, rdi; push rbx; sub rsp, 0x50; mov [rbp-0x24], edx;
  // mov [rbp-0x26], cx; mov [rbp-0x40], rsi; movsd [rbp-0x48], xmm0; mov bl, r8b; call; nop; ret
  const KeptArguments kept =
      Kept({0x55, 0x48, 0x89, 0xe5, 0x41, 0x54, 0x49, 0x89, 0xfc, 0x53, 0x48, 0x83, 0xec, 0x50,
            0x89, 0x55, 0xdc, 0x66, 0x89, 0x4d, 0xda, 0x48, 0x89, 0x75, 0xc0, 0xf2, 0x0f, 0x11,
            0x45, 0xb8, 0x44, 0x88, 0xc3, 0xe8, 0xda, 0x0f, 0x00, 0x00, 0x90, 0xc3});
  const std::vector<KeptPiece> expected = {
      InRegister(abi::PT_RDI, 0, 8, 12), InFrame(abi::PT_RSI, 0, 8, 0x20),
      InFrame(abi::PT_RDX, 0, 4, 0x3c),  InFrame(abi::PT_RCX, 0, 2, 0x3a),
      InRegister(abi::PT_R8, 0, 1, 3),   InFrame(kXmm0, 0, 8, 0x18)};
  EXPECT_EQ(kept.pieces, expected);
  EXPECT_EQ(kept.stack_words, 64);
  EXPECT_EQ(kept.Find(abi::PT_RDX, 1, 2), InFrame(abi::PT_RDX, 1, 2, 0x3d));
  EXPECT_FALSE(kept.Find(abi::PT_RDX, 0, 8));
  EXPECT_FALSE(kept.Find(abi::PT_R9, 0, 1));
}

TEST(KeptArgumentsTest, AllWaysMustAgree) {
  // push rbx; push r12; push r13; mov rbx, rdi; mov r12, rsi; mov r13, rdx; test al, al; je 1f;
  // mov r12, rdi; call other; 1: call; ret
  const KeptArguments kept = Kept({0x53, 0x41, 0x54, 0x41, 0x55, 0x48, 0x89, 0xfb, 0x49, 0x89, 0xf4,
                                   0x49, 0x89, 0xd5, 0x84, 0xc0, 0x74, 0x08, 0x49, 0x89, 0xfc, 0xe8,
                                   0xe6, 0x1f, 0x00, 0x00, 0xe8, 0xe1, 0x0f, 0x00, 0x00, 0xc3});
  const std::vector<KeptPiece> expected = {InRegister(abi::PT_RDI, 0, 8, 3),
                                           InRegister(abi::PT_RDX, 0, 8, 13)};
  EXPECT_EQ(kept.pieces, expected);
}

TEST(KeptArgumentsTest, WhatALoopChangesIsNotKept) {
  // push rbx; push r12; mov rbx, rdi; mov r12, rsi; 1: mov rax, [rbx]; add rbx, 8; cmp rbx, r12;
  // jne 1b; call; ret
  const KeptArguments kept =
      Kept({0x53, 0x41, 0x54, 0x48, 0x89, 0xfb, 0x49, 0x89, 0xf4, 0x48, 0x8b, 0x03, 0x48, 0x83,
            0xc3, 0x08, 0x4c, 0x39, 0xe3, 0x75, 0xf4, 0xe8, 0xe6, 0x0f, 0x00, 0x00, 0xc3});
  EXPECT_EQ(kept.pieces, std::vector<KeptPiece>{InRegister(abi::PT_RSI, 0, 8, 12)});
}

TEST(KeptArgumentsTest, ObjectsWhoseAddressACallGetsMayChange) {
  // sub rsp, 0x28; mov [rsp+8], rdi; mov [rsp+0x18], rsi; mov [rsp], rdx; lea rdi, [rsp+8];
  // call other; call; ret
  const KeptArguments kept =
      Kept({0x48, 0x83, 0xec, 0x28, 0x48, 0x89, 0x7c, 0x24, 0x08, 0x48, 0x89, 0x74,
            0x24, 0x18, 0x48, 0x89, 0x14, 0x24, 0x48, 0x8d, 0x7c, 0x24, 0x08, 0xe8,
            0xe4, 0x1f, 0x00, 0x00, 0xe8, 0xdf, 0x0f, 0x00, 0x00, 0xc3});
  EXPECT_EQ(kept.pieces, std::vector<KeptPiece>{InFrame(abi::PT_RDX, 0, 8, 0)});
  EXPECT_EQ(kept.stack_words, 0);  // they lie in reach of that address, too
}

// As above.
const std::vector<uint8_t> kAddressCode = {0x48, 0x83, 0xec, 0x28, 0x48, 0x89, 0x7c, 0x24, 0x08,
                                           0x48, 0x89, 0x74, 0x24, 0x18, 0x48, 0x89, 0x14, 0x24,
                                           0x48, 0x8d, 0x7c, 0x24, 0x08, 0xe8, 0xe4, 0x1f, 0x00,
                                           0x00, 0xe8, 0xdf, 0x0f, 0x00, 0x00, 0xc3};

TEST(KeptArgumentsTest, TheDispatchersKeyExtractorChangesNone) {
  const KeptArguments kept =
      Kept(kAddressCode, "_ZNK3c1020DispatchKeyExtractor24getDispatchKeySetUnboxedIJEEEvv");
  const std::vector<KeptPiece> expected = {InFrame(abi::PT_RDI, 0, 8, 8),
                                           InFrame(abi::PT_RSI, 0, 8, 0x18),
                                           InFrame(abi::PT_RDX, 0, 8, 0)};
  EXPECT_EQ(kept.pieces, expected);
  EXPECT_EQ(kept.stack_words, 64);
}

TEST(KeptArgumentsTest, ACopyOfASymbolicNumberIsFollowed) {
  // rsi is the address of the number that is copied to [rsp+8].
  const KeptArguments kept = Kept(kAddressCode, "_ZN3c106SymIntC2ERKS0_");
  const std::vector<KeptPiece> expected = {
      InFrame(abi::PT_RSI, 0, 8, 0x18), InFrame(abi::PT_RDX, 0, 8, 0),
      InFrame(KeptPiece::kPointeeSource + abi::PT_RSI, 0, 8, 8)};
  EXPECT_EQ(kept.pieces, expected);
}

TEST(KeptArgumentsTest, WordsOfTheCallerMayBeOverwritten) {
  // sub rsp, 0x18; mov rax, [rsp+0x28]; mov [rsp+0x30], rax; call; ret
  const KeptArguments kept = Kept({0x48, 0x83, 0xec, 0x18, 0x48, 0x8b, 0x44, 0x24, 0x28, 0x48,
                                   0x89, 0x44, 0x24, 0x30, 0xe8, 0xed, 0x0f, 0x00, 0x00, 0xc3});
  EXPECT_TRUE(kept.pieces.empty());
  EXPECT_EQ(kept.stack_words, 2);
}

TEST(KeptArgumentsTest, AreFollowedByteByByte) {
  // push rbx; sub rsp, 0x10; mov [rsp+7], sil; shr esi, 8; mov ebx, esi; movaps [rsp], xmm1;
  // mov [rsp+2], sil; call; ret
  const KeptArguments kept = Kept({0x53, 0x48, 0x83, 0xec, 0x10, 0x40, 0x88, 0x74, 0x24, 0x07,
                                   0xc1, 0xee, 0x08, 0x89, 0xf3, 0x0f, 0x29, 0x0c, 0x24, 0x40,
                                   0x88, 0x74, 0x24, 0x02, 0xe8, 0xe3, 0x0f, 0x00, 0x00, 0xc3});
  const std::vector<KeptPiece> expected = {
      InRegister(abi::PT_RSI, 1, 3, 3), InFrame(kXmm0 + 1, 0, 2, 0), InFrame(kXmm0 + 1, 3, 5, 3)};
  EXPECT_EQ(kept.pieces, expected);
}

TEST(KeptArgumentsTest, AreFollowedThroughVectorRegisters) {
  // sub rsp, 0x18; movq xmm0, rdi; movq xmm1, rsi; punpcklqdq xmm0, xmm1; movaps [rsp], xmm0;
  // call; ret
  const KeptArguments kept =
      Kept({0x48, 0x83, 0xec, 0x18, 0x66, 0x48, 0x0f, 0x6e, 0xc7, 0x66, 0x48, 0x0f, 0x6e, 0xce,
            0x66, 0x0f, 0x6c, 0xc1, 0x0f, 0x29, 0x04, 0x24, 0xe8, 0xe5, 0x0f, 0x00, 0x00, 0xc3});
  const std::vector<KeptPiece> expected = {InFrame(abi::PT_RDI, 0, 8, 0),
                                           InFrame(abi::PT_RSI, 0, 8, 8)};
  EXPECT_EQ(kept.pieces, expected);
}

TEST(KeptArgumentsTest, NothingIsKeptBelowTheStackPointer) {
  // push rdi; add rsp, 8; mov rbx, rsi; call other; sub rsp, 8; call; ret
  const KeptArguments kept =
      Kept({0x57, 0x48, 0x83, 0xc4, 0x08, 0x48, 0x89, 0xf3, 0xe8, 0xf3, 0x1f, 0x00,
            0x00, 0x48, 0x83, 0xec, 0x08, 0xe8, 0xea, 0x0f, 0x00, 0x00, 0xc3});
  EXPECT_EQ(kept.pieces, std::vector<KeptPiece>{InRegister(abi::PT_RSI, 0, 8, 3)});
}

abi::pt_argument Argument(abi::pt_argument_kind kind, uint8_t place) {
  abi::pt_argument argument{};
  argument.kind = static_cast<uint8_t>(kind);
  argument.place = place;
  argument.second = argument.flag = abi::PT_ARGUMENT_NOWHERE;
  return argument;
}

// (Tensor, int[], float, bool?, on the stack: int)
std::vector<abi::pt_argument> SomeArguments() {
  std::vector<abi::pt_argument> arguments = {
      Argument(abi::PT_ARGUMENT_TENSOR, abi::PT_RSI), Argument(abi::PT_ARGUMENT_INTS, abi::PT_RDX),
      Argument(abi::PT_ARGUMENT_DOUBLE, abi::PT_ARGUMENT_VECTOR_REGISTER),
      Argument(abi::PT_ARGUMENT_BOOL, abi::PT_R8),
      Argument(abi::PT_ARGUMENT_INT, abi::PT_ARGUMENT_STACK)};
  arguments[1].second = abi::PT_RCX;
  arguments[3].flag = abi::PT_R8;
  arguments[3].flag_offset = 1;
  return arguments;
}

KeptArguments SomeKept() {
  return {{InRegister(abi::PT_RSI, 0, 8, 13), InFrame(abi::PT_RDX, 0, 8, 0x10),
           InRegister(abi::PT_RCX, 0, 8, 3), InFrame(abi::PT_R8, 0, 2, 0x2e),
           InFrame(kXmm0, 0, 8, 0x20)},
          1};
}

TEST(CallInputsTest, AreFoundWhereTheFunctionKeepsThem) {
  const auto inputs = InputsAtCall(SomeArguments(), SomeKept(), 9);
  ASSERT_TRUE(inputs);
  // From the word at 0x10 to the caller's at 8 * (9 + 1).
  EXPECT_EQ(inputs->first_word, 2);
  EXPECT_EQ(inputs->stack_words, 9);
  const auto& arguments = inputs->arguments;
  constexpr uint8_t kFirst = abi::PT_ARGUMENT_STACK;
  EXPECT_EQ(arguments[0].place, 3);  // r13
  EXPECT_EQ(arguments[1].place, kFirst);
  EXPECT_EQ(arguments[1].second, 0);  // rbx
  EXPECT_EQ(arguments[2].kind, abi::PT_ARGUMENT_DOUBLE);
  EXPECT_EQ(arguments[2].place, kFirst + 2);
  EXPECT_EQ(arguments[3].place, kFirst + 3);
  EXPECT_EQ(arguments[3].value_offset, 6);
  EXPECT_EQ(arguments[3].flag, kFirst + 3);
  EXPECT_EQ(arguments[3].flag_offset, 7);
  EXPECT_EQ(arguments[4].place, kFirst + 8);
}

TEST(CallInputsTest, AreNoneWhereAnyPartIsNotKept) {
  for (size_t missing = 0; missing < 5; ++missing) {
    KeptArguments kept = SomeKept();
    kept.pieces.erase(kept.pieces.begin() + static_cast<ptrdiff_t>(missing));
    EXPECT_FALSE(InputsAtCall(SomeArguments(), kept, 9)) << missing;
  }
  KeptArguments kept = SomeKept();
  kept.stack_words = 0;
  EXPECT_FALSE(InputsAtCall(SomeArguments(), kept, 9));
  EXPECT_FALSE(InputsAtCall(SomeArguments(), SomeKept(), 300));  // too far apart for one reading
  kept = SomeKept();
  kept.pieces[1].place = 0x14;  // in two words
  EXPECT_FALSE(InputsAtCall(SomeArguments(), kept, 9));
}

TEST(CallInputsTest, ASymbolicNumberMayBeKeptWithoutItsAddress) {
  const KeptArguments kept = {{InRegister(KeptPiece::kPointeeSource + abi::PT_RDX, 0, 8, 12)}, 0};
  const auto inputs = InputsAtCall({Argument(abi::PT_ARGUMENT_SYMBOLIC_INT, abi::PT_RDX)}, kept, 9);
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->arguments[0].kind, abi::PT_ARGUMENT_SYMBOLIC_WORD);
  EXPECT_EQ(inputs->arguments[0].place, 2);  // r12
  EXPECT_FALSE(InputsAtCall({Argument(abi::PT_ARGUMENT_TENSOR, abi::PT_RDX)}, kept, 9));
}

TEST(CallInputsTest, WhatTorchDoesNotShowNeedsNoPlace) {
  const auto inputs =
      InputsAtCall({Argument(abi::PT_ARGUMENT_OTHER, abi::PT_R9)}, KeptArguments(), 9);
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->stack_words, 0);
}

TEST(CallInputsTest, AtTheEntryAreBehindTheReturnAddress) {
  const auto inputs = InputsAtEntry(SomeArguments());
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->first_word, 1);
  EXPECT_EQ(inputs->stack_words, 1);
}

TEST(ReducedPlanTest, WithoutInputsProbesAreWhatTheyWere) {
  constexpr uint64_t kKeys =
      PT_COOKIE(0, 0, 5 | PT_KEY_SET_IN_MEMORY, 0x10) | PT_COOKIE_KEYS(21, 36, 1);
  ProbePlan plan;
  plan.has_input_probes = true;
  plan.signatures.resize(2);
  plan.signatures[1].begin = kKeys;
  ModulePlan module;
  module.points = {{0x10, PT_COOKIE(7, abi::PT_ROLE_OPERATOR_CALL, 0, 0), 0, 2},
                   {0x20, PT_COOKIE(8, abi::PT_ROLE_INPUTS_BEGIN, 0, 0), 0, 1},
                   {0x30, PT_COOKIE(8, abi::PT_ROLE_SPILLED_INPUTS, 0, 0), 0, 1}};
  plan.modules = {module};
  RemoveInputs("why", &plan);
  EXPECT_TRUE(plan.signatures.empty());
  const std::vector<ProbePoint>& points = plan.modules[0].points;
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].cookie, PT_COOKIE(7, abi::PT_ROLE_OPERATOR_BEGIN, 0, 0) | kKeys);
  EXPECT_EQ(points[0].signature, 0);
  EXPECT_EQ(points[1].cookie, PT_COOKIE(8, abi::PT_ROLE_BEGIN, 0, 0));
}

TEST(ReducedPlanTest, WithoutInputsOfRowsOperatorsKeepTheirs) {
  ProbePlan plan;
  plan.has_input_probes = true;
  plan.node_signature = 1;
  RemoveRowInputs("why", &plan);
  EXPECT_TRUE(plan.gaps.empty());
  plan.row_inputs.resize(1);
  plan.operator_signatures.resize(1);
  plan.places.resize(1);
  plan.places[0].inputs = 1;
  RemoveRowInputs("why", &plan);
  EXPECT_TRUE(plan.has_input_probes);
  EXPECT_EQ(plan.node_signature, 1);
  EXPECT_TRUE(plan.row_inputs.empty());
  EXPECT_TRUE(plan.operator_signatures.empty());
  EXPECT_EQ(plan.places[0].inputs, 0u);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_EQ(plan.gaps[0].reason, "why");
}

}  // namespace
}  // namespace proftrace
