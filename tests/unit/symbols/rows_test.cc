// Rows outside the dispatcher's functions: their names, operators and ends, from made-up code.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "symbols/elf/elf_file.h"
#include "symbols/plan/planner.h"
#include "symbols/torch/cuda_functions.h"
#include "symbols/torch/given_names.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/range_functions.h"
#include "symbols/torch/row_extent.h"
#include "symbols/torch/row_makers.h"
#include "symbols/torch/version_layouts.h"
#include "symbols/x86/frame_ends.h"
#include "symbols/x86/value_walk.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

constexpr uint64_t kBase = kFakeCodeBase;
constexpr uint64_t kMaker = 0x9000;   // what begins a row
constexpr uint64_t kBefore = 0x9100;  // RecordFunction::before
constexpr uint64_t kOther = 0x9200;
constexpr char kBeforeText[] = "_ZN2at14RecordFunction6beforeEPKcl";
constexpr char kBeforeString[] = "_ZN2at14RecordFunction6beforeESsl";
constexpr char kBeforeVariant[] =
    "_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEESt17"
    "reference_wrapperIKN3c1014FunctionSchemaEEEEl";

class RowMakersTest : public ::testing::Test {
 protected:
  FlowGraph Build(const Code& code, std::string before = kBeforeText) {
    image_.Add(kBase, code.bytes());
    image_.AddStub(kMaker, "maker");
    image_.AddStub(kBefore, std::move(before));
    image_.AddStub(kOther, "other");
    auto graph = FlowGraph::Build(image_, kBase, kBase + code.bytes().size());
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }
  static uint32_t CallTo(const FlowGraph& graph, uint64_t target) {
    for (uint32_t i = 0; i < graph.size(); ++i) {
      if (graph.node(i).is_call && graph.node(i).instruction.target == target) return i;
    }
    ADD_FAILURE() << "no call";
    return 0;
  }

  FakeCode image_;
};

std::vector<int32_t> Offsets(const abi::pt_place& place) {
  return {place.offsets, place.offsets + place.count};
}

TEST_F(RowMakersTest, ANameIsReadWhereTheCodeReadsIt) {
  // push rbx; mov rbx, rdi; call maker; mov rsi, [rbx+0x18]; call before; pop rbx; ret
  const FlowGraph graph = Build(Code()
                                    .Bytes({0x53, 0x48, 0x89, 0xfb})
                                    .Call(kMaker)
                                    .Bytes({0x48, 0x8b, 0x73, 0x18})
                                    .Call(kBefore)
                                    .Bytes({0x5b, 0xc3}));
  const auto name = FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker});
  ASSERT_TRUE(name && name->place);
  EXPECT_EQ(name->place->base, 3);  // rbx
  EXPECT_EQ(Offsets(*name->place), (std::vector<int32_t>{0x18, 0}));
  EXPECT_EQ(name->place->form, abi::PT_PLACE_C_STRING);
}

TEST_F(RowMakersTest, ALiteralIsTheNameItself) {
  // call maker; lea rsi, [rip+…]; call before; ret
  Code code;
  code.Call(kMaker).Bytes({0x48, 0x8d, 0x35});
  const int32_t distance = 0x200 - static_cast<int32_t>(code.bytes().size() + 4);
  const uint8_t* at = reinterpret_cast<const uint8_t*>(&distance);
  code.Bytes({at, at + 4}).Call(kBefore).Bytes({0xc3});
  image_.Add(kBase + 0x200, {'c', 'h', 'u', 'n', 'k', 0});
  const FlowGraph graph = Build(code);
  const auto name = FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker});
  ASSERT_TRUE(name);
  EXPECT_EQ(name->literal, "chunk");
  EXPECT_FALSE(name->place);
}

TEST_F(RowMakersTest, AVariantByValueIsFollowedThroughWideRegisters) {
  // mov rbp, rsp; call maker; mov [rbp-0x20], r12 (length); mov [rbp-0x18], rbx (text);
  // movdqa xmm0, [rbp-0x20]; sub rsp, 0x20; movups [rsp], xmm0; call before; ret
  const FlowGraph graph = Build(Code()
                                    .Bytes({0x48, 0x89, 0xe5})
                                    .Call(kMaker)
                                    .Bytes({0x4c, 0x89, 0x65, 0xe0, 0x48, 0x89, 0x5d, 0xe8})
                                    .Bytes({0x66, 0x0f, 0x6f, 0x45, 0xe0, 0x48, 0x83, 0xec, 0x20})
                                    .Bytes({0x0f, 0x11, 0x04, 0x24})
                                    .Call(kBefore)
                                    .Bytes({0xc3}),
                                kBeforeVariant);
  const auto name = FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker});
  ASSERT_TRUE(name && name->place);
  EXPECT_EQ(name->place->base, 3);
  EXPECT_EQ(Offsets(*name->place), (std::vector<int32_t>{0}));
}

TEST_F(RowMakersTest, ATextThatACalleeMakesIsNoName) {
  // sub rsp, 0x40; call maker; lea rdi, [rsp+0x10]; call other (fills a string); lea rsi,
  // [rsp+0x10]; call before(std::string); ret
  const FlowGraph graph = Build(Code()
                                    .Bytes({0x48, 0x83, 0xec, 0x40})
                                    .Call(kMaker)
                                    .Bytes({0x48, 0x8d, 0x7c, 0x24, 0x10})
                                    .Call(kOther)
                                    .Bytes({0x48, 0x8d, 0x74, 0x24, 0x10})
                                    .Call(kBefore)
                                    .Bytes({0xc3}),
                                kBeforeString);
  EXPECT_FALSE(FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker}));
}

TEST_F(RowMakersTest, ANameMayBeOfAnElementOfAnArray) {
  // call maker; mov rax, r12; shl rax, 6; add rax, [rbx+0x30]; mov rsi, [rax+8]; call before; ret
  const FlowGraph graph = Build(Code()
                                    .Call(kMaker)
                                    .Bytes({0x4c, 0x89, 0xe0, 0x48, 0xc1, 0xe0, 0x06})
                                    .Bytes({0x48, 0x03, 0x43, 0x30, 0x48, 0x8b, 0x70, 0x08})
                                    .Call(kBefore)
                                    .Bytes({0xc3}));
  const auto name = FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker});
  ASSERT_TRUE(name && name->place);
  EXPECT_EQ(name->place->base, 3);  // rbx
  EXPECT_EQ(Offsets(*name->place), (std::vector<int32_t>{0x30, 8, 0}));
  EXPECT_EQ(name->place->index, 12 + 1);
  EXPECT_EQ(name->place->index_shift, 6);
  EXPECT_EQ(name->place->index_step, 1);
}

TEST_F(RowMakersTest, ANameMayGoThroughTorchsOwnHelpers) {
  // call maker; sub rsp, 0x20; mov [rsp+8], rbx; call helper(…, std::variant<…>, …); ret
  for (const char* helper : {"_ZN2at6detail26record_function_with_scopeI",
                             "_ZN2at6detail43record_function_with_scope_and_debug_handleI"}) {
    const FlowGraph graph =
        Build(Code()
                  .Call(kMaker)
                  .Bytes({0x48, 0x83, 0xec, 0x20, 0x48, 0x89, 0x5c, 0x24, 0x08})
                  .Call(kBefore)
                  .Bytes({0xc3}),
              std::string(helper) + "EEvRNS_14RecordFunctionESt7variantIJSt17basic_string_viewIc");
    const auto name = FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker});
    ASSERT_TRUE(name && name->place) << helper;
    EXPECT_EQ(name->place->base, 3);
    EXPECT_EQ(Offsets(*name->place), (std::vector<int32_t>{0}));
  }
}

// call maker; mov rdx, [rbx+0x10]; lea rax, [rbx+0x40]; test TESTED; lea rcx, [rdx+0x38]; cmovne
// rax, rcx; mov rsi, [rax]; call before; ret
Code ChosenName(std::vector<uint8_t> test) {
  Code code;
  code.Call(kMaker).Bytes({0x48, 0x8b, 0x53, 0x10, 0x48, 0x8d, 0x43, 0x40}).Bytes(std::move(test));
  code.Bytes({0x48, 0x8d, 0x4a, 0x38, 0x48, 0x0f, 0x45, 0xc1, 0x48, 0x8b, 0x30});
  return code.Call(kBefore).Bytes({0xc3});
}

TEST_F(RowMakersTest, OfTwoNamesTheOneBehindAPointerThatIsTestedComesFirst) {
  const FlowGraph graph = Build(ChosenName({0x48, 0x85, 0xd2}));  // rdx, rdx
  const auto name = FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker});
  ASSERT_TRUE(name && name->place && name->otherwise);
  EXPECT_EQ(Offsets(*name->place), (std::vector<int32_t>{0x10, 0x38, 0}));
  EXPECT_EQ(Offsets(*name->otherwise), (std::vector<int32_t>{0x40, 0}));
}

TEST_F(RowMakersTest, OfTwoNamesNeitherIsKnownWhereSomethingElseIsTested) {
  const FlowGraph graph = Build(ChosenName({0x4d, 0x85, 0xc0}));  // r8, r8
  EXPECT_FALSE(FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker}));
}

TEST_F(RowMakersTest, ANameMayBeTheTextOfASymbol) {
  // call maker; mov rax, [rbx]; mov eax, [rax+8]; lea rdi, [rbp-0x20]; mov [rbp-0x20], eax; call
  // toQualString; mov rsi, rax; call before; ret
  image_.AddStub(kOther + 0x100, "_ZNK3c106Symbol12toQualStringEv");
  const FlowGraph graph = Build(Code()
                                    .Call(kMaker)
                                    .Bytes({0x48, 0x8b, 0x03, 0x8b, 0x40, 0x08})
                                    .Bytes({0x48, 0x8d, 0x7d, 0xe0, 0x89, 0x45, 0xe0})
                                    .Call(kOther + 0x100)
                                    .Bytes({0x48, 0x89, 0xc6})
                                    .Call(kBefore)
                                    .Bytes({0xc3}));
  const auto name = FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker});
  ASSERT_TRUE(name && name->place);
  EXPECT_EQ(name->place->form, abi::PT_PLACE_SYMBOL);
  EXPECT_EQ(Offsets(*name->place), (std::vector<int32_t>{0, 8, 0}));
}

TEST_F(RowMakersTest, ANameMayBeWhereAVirtualFunctionReturnsIt) {
  // call maker; mov rdi, [rbx+0x30]; mov rax, [rdi]; call [rax+0x20]; mov rsi, [rax+0x58]; call
  // before; ret
  const FlowGraph graph = Build(Code()
                                    .Call(kMaker)
                                    .Bytes({0x48, 0x8b, 0x7b, 0x30, 0x48, 0x8b, 0x07})
                                    .Bytes({0xff, 0x50, 0x20, 0x48, 0x8b, 0x70, 0x58})
                                    .Call(kBefore)
                                    .Bytes({0xc3}));
  const uint32_t maker = CallTo(graph, kMaker);
  const auto known = [](int64_t slot) {
    return slot == 0x20 ? std::optional(Value{7, {8}}) : std::nullopt;  // rdi + 8
  };
  const auto name = FindGivenName(image_, graph, maker, {kMaker}, known);
  ASSERT_TRUE(name && name->place);
  EXPECT_EQ(Offsets(*name->place), (std::vector<int32_t>{0x30, 0x60, 0}));
  EXPECT_FALSE(FindGivenName(image_, graph, maker, {kMaker}));
  const auto of_others = [](int64_t) { return std::optional<Value>(); };
  EXPECT_FALSE(FindGivenName(image_, graph, maker, {kMaker}, of_others));
}

constexpr uint64_t kForwarder = 0x9300;
constexpr uint64_t kMakesString = 0x9400;
constexpr uint64_t kCreate = 0x9500;

// A jump to RecordFunction::before, at `address`.
std::vector<uint8_t> JumpToBefore(uint64_t address) {
  const auto distance = static_cast<int32_t>(kBefore - (address + 5));
  const auto* at = reinterpret_cast<const uint8_t*>(&distance);
  std::vector<uint8_t> jump = {0xe9};
  jump.insert(jump.end(), at, at + 4);
  return jump;
}

TEST_F(RowMakersTest, ANameIsFollowedThroughASmallFunctionWithoutAName) {
  // cmp byte [rdi+0x61], 0; je +; mov [rdi+0xd0], rsi; +: jmp before
  std::vector<uint8_t> forwarder = {0x80, 0x7f, 0x61, 0x00, 0x74, 0x07, 0x48,
                                    0x89, 0xb7, 0xd0, 0,    0,    0};
  const std::vector<uint8_t> jump = JumpToBefore(kForwarder + forwarder.size());
  forwarder.insert(forwarder.end(), jump.begin(), jump.end());
  image_.Add(kForwarder, forwarder);
  // sub rsp, 0x20; call maker; mov [rsp+8], rbx (text); call forwarder; ret
  const Code code = Code()
                        .Bytes({0x48, 0x83, 0xec, 0x20})
                        .Call(kMaker)
                        .Bytes({0x48, 0x89, 0x5c, 0x24, 0x08})
                        .Call(kForwarder)
                        .Bytes({0xc3});
  const FlowGraph graph = Build(code, kBeforeVariant);
  const auto name = FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker});
  ASSERT_TRUE(name && name->place);
  EXPECT_EQ(name->place->base, 3);
  EXPECT_EQ(Offsets(*name->place), (std::vector<int32_t>{0}));
}

TEST_F(RowMakersTest, ASmallFunctionThatMakesARowOfItsOwnGivesNoName) {
  // call maker; mov rsi, rbx; jmp before
  std::vector<uint8_t> bytes = {0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xde};
  const auto to_maker = static_cast<int32_t>(kMaker - (kForwarder + 5));
  std::memcpy(bytes.data() + 1, &to_maker, sizeof(to_maker));
  const std::vector<uint8_t> jump = JumpToBefore(kForwarder + bytes.size());
  bytes.insert(bytes.end(), jump.begin(), jump.end());
  image_.Add(kForwarder, bytes);
  const FlowGraph graph = Build(Code().Call(kMaker).Call(kForwarder).Bytes({0xc3}));
  EXPECT_FALSE(FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker}));
}

TEST_F(RowMakersTest, AStringMayBeMadeByAFunctionWithoutAName) {
  // std::string's constructor from two pointers: mov rax, [rdi]; cmp rdx, 0xf; ja +; ret; +: call
  // _M_create; ret
  std::vector<uint8_t> makes = {0x48, 0x8b, 0x07, 0x48, 0x83, 0xfa, 0x0f, 0x77,
                                0x01, 0xc3, 0xe8, 0,    0,    0,    0,    0xc3};
  const auto to_create = static_cast<int32_t>(kCreate - (kMakesString + 15));
  std::memcpy(makes.data() + 11, &to_create, sizeof(to_create));
  image_.Add(kMakesString, makes);
  image_.AddStub(kCreate, "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm");
  // sub rsp, 0x40; call maker; mov rsi, [rbx+0x18]; lea rdi, [rsp+0x10]; call makes_string; lea
  // rsi, [rsp+0x10]; call before(std::string); ret
  const FlowGraph graph = Build(Code()
                                    .Bytes({0x48, 0x83, 0xec, 0x40})
                                    .Call(kMaker)
                                    .Bytes({0x48, 0x8b, 0x73, 0x18})
                                    .Bytes({0x48, 0x8d, 0x7c, 0x24, 0x10})
                                    .Call(kMakesString)
                                    .Bytes({0x48, 0x8d, 0x74, 0x24, 0x10})
                                    .Call(kBefore)
                                    .Bytes({0xc3}),
                                kBeforeString);
  const auto name = FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker});
  ASSERT_TRUE(name && name->place);
  EXPECT_EQ(Offsets(*name->place), (std::vector<int32_t>{0x18, 0}));
}

TEST_F(RowMakersTest, TwoNamesAreNone) {
  // call maker; test eax, eax; je +; mov rsi, rbx; call before; ret; +: mov rsi, r12; call before;
  // ret
  const FlowGraph graph = Build(Code()
                                    .Call(kMaker)
                                    .Bytes({0x85, 0xc0, 0x74, 0x09, 0x48, 0x89, 0xde})
                                    .Call(kBefore)
                                    .Bytes({0xc3, 0x4c, 0x89, 0xe6})
                                    .Call(kBefore)
                                    .Bytes({0xc3}));
  EXPECT_FALSE(FindGivenName(image_, graph, CallTo(graph, kMaker), {kMaker}));
}

// call maker; cmp [rsp+0x60], 0; jne slow; fast: call other; meet: cmp [rsp+0x60], 0; je out; nop;
// out: ret; slow: mov rax, [rbp-0x10]; cmp [rax+0x17c8], 0; je fast; call other; jmp meet
Code InlinedDispatch() {
  return Code()
      .Call(kMaker)
      .Bytes({0x80, 0x7c, 0x24, 0x60, 0x00, 0x75, 0x0e})
      .Call(kOther)
      .Bytes({0x80, 0x7c, 0x24, 0x60, 0x00, 0x74, 0x01, 0x90, 0xc3})
      .Bytes({0x48, 0x8b, 0x45, 0xf0, 0x80, 0xb8, 0xc8, 0x17, 0, 0, 0, 0x74, 0xe5})
      .Call(kOther)
      .Bytes({0xeb, 0xe3});
}

TEST_F(RowMakersTest, TheOperatorIsTheOneWhoseFlagIsTested) {
  const FlowGraph graph = Build(InlinedDispatch());
  const auto place = FindCalledOperator(graph, CallTo(graph, kMaker));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->base, 5);  // rbp
  EXPECT_EQ(Offsets(*place), (std::vector<int32_t>{-16, 0}));
}

TEST_F(RowMakersTest, TheRowIsOverWhereBothWaysMeet) {
  const FlowGraph graph = Build(InlinedDispatch());
  const auto end = FindMeetingPoint(graph, CallTo(graph, kMaker));
  ASSERT_TRUE(end);
  // Moved on from the comparison to the jump, which the kernel emulates.
  EXPECT_EQ(graph.node(*end).instruction.address, kBase + 22);
  EXPECT_EQ(graph.node(*end).instruction.kind, InstructionKind::kConditionalJump);
  EXPECT_EQ(FindFlagTests(graph, CallTo(graph, kMaker)), std::vector<uint32_t>{*end});
}

TEST_F(RowMakersTest, ThereIsNoEndThatAlsoFollowsWithoutABegin) {
  // test eax, eax; je +; call maker; test ecx, ecx; je +; call other; +: ret
  const FlowGraph graph = Build(Code()
                                    .Bytes({0x85, 0xc0, 0x74, 0x0e})
                                    .Call(kMaker)
                                    .Bytes({0x85, 0xc9, 0x74, 0x05})
                                    .Call(kOther)
                                    .Bytes({0xc3}));
  EXPECT_FALSE(FindMeetingPoint(graph, CallTo(graph, kMaker)));
}

// call new; mov esi, SCOPE; mov rbx, rax; mov rax, [rip+…] (the slot of a vtable); lea r12,
// [rbx+0x10]; mov rdi, r12; add rax, 0x10; mov [rbx], rax; call maker; ret
Code MakesOnTheHeap(uint8_t scope, bool returns = true) {
  Code code;
  code.Call(kOther + 0x200).Bytes({0xbe, scope, 0, 0, 0, 0x48, 0x89, 0xc3, 0x48, 0x8b, 0x05});
  const auto distance = static_cast<int32_t>(0x800 - (code.bytes().size() + 4));
  const auto* at = reinterpret_cast<const uint8_t*>(&distance);
  code.Bytes({at, at + 4}).Bytes({0x4c, 0x8d, 0x63, 0x10, 0x4c, 0x89, 0xe7});
  code.Bytes({0x48, 0x83, 0xc0, 0x10, 0x48, 0x89, 0x03});
  // As compilers put other code between the scope and the call.
  for (int i = 0; i < 24; ++i) code.Bytes({0x90});
  code.Call(kMaker);
  if (returns) code.Bytes({0xc3});
  return code;
}

TEST_F(RowMakersTest, GloosWorksAndAnnotationsAreToldByTheirObjects) {
  image_.AddStub(kOther + 0x200, "_Znwm");
  const FlowGraph graph = Build(MakesOnTheHeap(7));
  EXPECT_EQ(KindOfNameless(image_, graph, {kMaker}), NamelessMaker::kAnnotation);
  image_.AddSlot(kBase + 0x800, "_ZTVSt23_Sp_counted_ptr_inplaceIN2at14RecordFunctionESaIvEE");
  EXPECT_EQ(KindOfNameless(image_, graph, {kMaker}), NamelessMaker::kGlooWork);
  EXPECT_EQ(KindOfNameless(image_, Build(MakesOnTheHeap(0)), {kMaker}), NamelessMaker::kNeither);
}

// push rbx; mov rbx, rdi; [mov rdi, [rbx+0x18]; call sequence]; mov rdi, [rbx+0x20]; call dict;
// SCOPE; call maker; pop rbx; ret
Code LooksThroughMembers(bool has_sequence, const std::vector<uint8_t>& scope) {
  Code code;
  code.Bytes({0x53, 0x48, 0x89, 0xfb});
  if (has_sequence) code.Bytes({0x48, 0x8b, 0x7b, 0x18}).Call(kOther + 0x200);
  code.Bytes({0x48, 0x8b, 0x7b, 0x20}).Call(kOther + 0x300).Bytes(scope).Call(kMaker);
  return code.Bytes({0x5b, 0xc3});
}

TEST_F(RowMakersTest, ContextsOfPythonHaveASequenceAndADict) {
  image_.AddStub(kOther + 0x200, "PySequence_Fast");
  image_.AddStub(kOther + 0x300, "PyDict_Next");
  const std::vector<uint8_t> function = {0x31, 0xf6};  // xor esi, esi
  const std::vector<uint8_t> told = {0x89, 0xc6};      // mov esi, eax
  RowInputs inputs = FindContextInputs(Build(LooksThroughMembers(true, function)), {kMaker});
  ASSERT_EQ(inputs.kind, RowInputKind::kInferredValues);
  ASSERT_EQ(inputs.words.size(), 2u);
  EXPECT_EQ(Offsets(inputs.words[0]), std::vector<int32_t>({0x18, 0}));
  EXPECT_EQ(Offsets(inputs.words[1]), std::vector<int32_t>({0x20, 0}));
  EXPECT_FALSE(inputs.has_keyword_scope);
  EXPECT_TRUE(
      FindContextInputs(Build(LooksThroughMembers(true, told)), {kMaker}).has_keyword_scope);
  EXPECT_EQ(FindContextInputs(Build(LooksThroughMembers(false, told)), {kMaker}).kind,
            RowInputKind::kUnknown);
}

TEST(FastContextTest, KeywordValuesWhoseDictIsNotFoundAreNamed) {
  for (const auto& [path, is_clear] :
       {std::pair(PROFTRACE_FAST_CONTEXT_1, true), std::pair(PROFTRACE_FAST_CONTEXT_0, false)}) {
    auto file = ElfFile::Open(UniqueFd(open(path, O_RDONLY | O_CLOEXEC)));
    ASSERT_TRUE(file.ok()) << file.status();
    const ModuleFacts facts = AnalyzeModule(file->get());
    ASSERT_EQ(facts.rows.size(), 1u);
    EXPECT_EQ(facts.rows.front().probes.front().inputs.words.size(), is_clear ? 2u : 1u);
    const bool is_named = std::any_of(facts.gaps.begin(), facts.gaps.end(), [](const PlanGap& gap) {
      return gap.feature.starts_with("keyword values of torch._C._profiler");
    });
    EXPECT_EQ(is_named, !is_clear);
  }
}

TEST_F(RowMakersTest, WhatPythonGetsIsNoAnnotationOfTheDispatchers) {
  image_.AddStub(kOther + 0x200, "_Znwm");
  image_.AddStub(kOther + 0x220, "_ZN5torch3jit10toPyObjectEN3c106IValueE");
  Code code = MakesOnTheHeap(7, /*returns=*/false);
  code.Call(kOther + 0x220).Bytes({0xc3});
  EXPECT_EQ(KindOfNameless(image_, Build(code), {kMaker}), NamelessMaker::kNeither);
}

TEST_F(RowMakersTest, AFrameThatLiesOnTheStackIsTakenFromItsRegisterBefore) {
  // mov rbp, rsp; mov [rbp-0x28], rdi (the frame); lea rdi, [rbp-0x20]; call maker; call new; mov
  // r9, [rbp-0x28]; mov [r9+0x30], rax; ret
  image_.AddStub(kOther + 0x200, "_Znwm");
  const FlowGraph graph = Build(Code()
                                    .Bytes({0x48, 0x89, 0xe5, 0x48, 0x89, 0x7d, 0xd8})
                                    .Bytes({0x48, 0x8d, 0x7d, 0xe0})
                                    .Call(kMaker)
                                    .Call(kOther + 0x200)
                                    .Bytes({0x4c, 0x8b, 0x4d, 0xd8, 0x49, 0x89, 0x41, 0x30, 0xc3}));
  const auto slot = FindFrameSlot(graph, CallTo(graph, kMaker));
  ASSERT_TRUE(slot);
  EXPECT_EQ(graph.node(slot->node).instruction.address, kBase + 3);
  EXPECT_EQ(slot->frame, 7);  // rdi
  EXPECT_EQ(slot->offset, 0x30);
}

TEST(FrameEndsTest, FindsSlotsOfTheFrameAndOfTheOneBeforeAPointer) {
  FakeCode image;
  // mov rdi, [rbp+0x30]; test rdi, rdi; je +6; mov rax, [rdi]; call [rax+8]; ret
  std::vector<uint8_t> code = {0x48, 0x8b, 0x7d, 0x30, 0x48, 0x85, 0xff, 0x74,
                               0x06, 0x48, 0x8b, 0x07, 0xff, 0x50, 0x08, 0xc3};
  // lea rax, [r12-0x68]; mov rdi, [r12-0x38]; test rdi, rdi; je +6; mov rax, [rdi]; call [rax+8]
  const std::vector<uint8_t> last = {0x49, 0x8d, 0x44, 0x24, 0x98, 0x49, 0x8b, 0x7c,
                                     0x24, 0xc8, 0x48, 0x85, 0xff, 0x74, 0x06, 0x48,
                                     0x8b, 0x07, 0xff, 0x50, 0x08, 0xc3};
  code.insert(code.end(), last.begin(), last.end());
  // Another class's: mov rdi, [rbx+0x28]; test rdi, rdi; je +6; mov rax, [rdi]; call [rax+8]; ret
  const std::vector<uint8_t> other = {0x48, 0x8b, 0x7b, 0x28, 0x48, 0x85, 0xff, 0x74,
                                      0x06, 0x48, 0x8b, 0x07, 0xff, 0x50, 0x08, 0xc3};
  code.insert(code.end(), other.begin(), other.end());
  code.resize(code.size() + 64);
  image.Add(0, code);
  const auto ends = FindFrameEnds(image, {0, 16, ""}, 0x30);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].address, 7u);
  EXPECT_EQ(ends[0].reg, 5);
  EXPECT_EQ(ends[0].offset, 0);
  EXPECT_EQ(ends[1].address, 29u);
  EXPECT_EQ(ends[1].reg, 12);
  EXPECT_EQ(ends[1].offset, -0x68);
}

TEST(PlaceTest, WhatTakesTooManyStepsHasNoPlace) {
  EXPECT_TRUE(PlaceOf(Value{3, {0, 8, 16, 24, 32, 0}}, abi::PT_PLACE_WORD));
  EXPECT_FALSE(PlaceOf(Value{3, {0, 8, 16, 24, 32, 40, 0}}, abi::PT_PLACE_WORD));
  EXPECT_FALSE(PlaceOf(Value{3, {int64_t{1} << 40}}, abi::PT_PLACE_WORD));
  EXPECT_FALSE(PlaceOf(Value(), abi::PT_PLACE_WORD));
  const auto place = PlaceOf(Value{Value::kAddress, {int64_t{1} << 40, 8}}, abi::PT_PLACE_WORD);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->address, uint64_t{1} << 40);
}

TEST(RangeTest, FunctionsAreToldByTheirWholeNames) {
  EXPECT_EQ(RangeRole("nvtxRangePushA"), abi::PT_ROLE_RANGE_PUSH);
  EXPECT_EQ(RangeRole("nvtxRangePop"), abi::PT_ROLE_RANGE_POP);
  EXPECT_EQ(RangeRole("_ZN5torch8profiler8itt_markEPKc"), abi::PT_ROLE_RANGE_MARK);
  EXPECT_EQ(RangeRole("nvtxRangePushA_impl_init_v3"), 0);
  EXPECT_EQ(RangeRole("nvtxRangeStartA"), abi::PT_ROLE_RANGE_MARK);
  EXPECT_EQ(RangePrefix("nvtxRangeStartA"), "range_start: ");
  EXPECT_EQ(RangePrefix("nvtxMarkA"), "");
  EXPECT_EQ(RangeRole("nvtxRangeStartA_impl_init_v3"), 0);
  EXPECT_EQ(RangeRole(""), 0);
}

TEST(CudaTest, FunctionsAreToldByTheirNamesInAnyVersion) {
  EXPECT_EQ(FindCudaFunction("cudaLaunchKernel").api, CudaApi::kRuntime);
  EXPECT_EQ(FindCudaFunction("cudaLaunchKernel").bytes_argument, 0);
  EXPECT_EQ(FindCudaFunction("cudaMemcpyAsync_ptsz").bytes_argument, 1 + abi::PT_RDX);
  EXPECT_EQ(FindCudaFunction("cuMemcpyHtoDAsync_v2_ptsz").api, CudaApi::kDriver);
  EXPECT_EQ(FindCudaFunction("cuMemcpyPeerAsync").bytes_argument, 1 + abi::PT_R8);
  EXPECT_EQ(FindCudaFunction("cuMemAlloc_v2").bytes_argument, 1 + abi::PT_RSI);
  for (const char* other : {"cudaGetDevice", "cudaLaunchKernels", "cuda", "cu", "", "cudaMemcpy_v",
                            "cudaMalloc3D", "custom_launch", "_Z16cudaLaunchKernelv"}) {
    EXPECT_EQ(FindCudaFunction(other).api, CudaApi::kNone) << other;
  }
}

TEST(PythonValuesTest, ATensorLiesBehindItsFlagUntil2Point9) {
  const auto of_2_9 = PythonValueLayoutOf("2.9.1+debian", "3.14");
  ASSERT_TRUE(of_2_9);
  EXPECT_EQ(of_2_9->tensor, 24);
  EXPECT_EQ(of_2_9->items, 32);
  const auto of_2_11 = PythonValueLayoutOf("2.11.0", "3.13");
  ASSERT_TRUE(of_2_11);
  EXPECT_EQ(of_2_11->tensor, 16);
  EXPECT_FALSE(PythonValueLayoutOf("2.16.0", "3.13"));  // not measured
}

TEST(PythonTextTest, UnknownVersionsHaveNoPlace) {
  EXPECT_EQ(PythonTextOffset("3.11"), 48);
  EXPECT_EQ(PythonTextOffset("3.14"), 40);
  EXPECT_EQ(PythonTextOffset("3.6"), 0);
  EXPECT_EQ(PythonTextOffset("4.0"), 0);
  EXPECT_EQ(PythonTextOffset(""), 0);
  // Free-threaded builds: what their objects begin with is longer.
  EXPECT_EQ(PythonTextOffset("3.14t"), 0);
  EXPECT_FALSE(PythonValueLayoutOf("2.11.0", "3.14t"));
}

}  // namespace
}  // namespace proftrace
