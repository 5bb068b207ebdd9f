#include <gtest/gtest.h>

#include <random>

#include "symbols/x86/call_scan.h"
#include "symbols/x86/exit_sites.h"
#include "symbols/x86/flow_graph.h"
#include "symbols/x86/instruction.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

constexpr uint64_t kBase = 0x1000;
constexpr uint64_t kFree = 0x9000;
constexpr uint64_t kThrow = 0x9010;

FakeCode Image(std::vector<uint8_t> bytes) {
  FakeCode image;
  image.Add(kBase, std::move(bytes), "f");
  image.AddStub(kFree, "free");
  image.AddStub(kThrow, "__cxa_throw");
  return image;
}

absl::StatusOr<FlowGraph> Graph(const FakeCode& image) {
  const auto range = image.FunctionAt(kBase);
  return FlowGraph::Build(image, range->start, range->end);
}

ExitSites Exits(std::vector<uint8_t> bytes) {
  const FakeCode image = Image(std::move(bytes));
  const auto graph = Graph(image);
  if (!graph.ok()) return {};
  return FindExitSites(*graph, WorkRule::kDispatch);
}

std::vector<uint64_t> At(std::vector<uint64_t> offsets) {
  for (uint64_t& offset : offsets) offset += kBase;
  return offsets;
}

TEST(ExitSitesTest, TakesTheJumpAfterTheWork) {
  // push rbx; call rax; test eax, eax; jne +1; nop; pop rbx; ret
  const ExitSites sites = Exits({0x53, 0xff, 0xd0, 0x85, 0xc0, 0x75, 0x01, 0x90, 0x5b, 0xc3});
  EXPECT_EQ(sites.rule, ExitRule::kConditional);
  EXPECT_EQ(sites.addresses, At({5}));
}

TEST(ExitSitesTest, EndsEntriesOfTheDriverBeforeTheyReport) {
  // push rbx; test edi, edi; je early; call *word(rip); test eax, eax; je out; call log; out: pop
  // rbx; ret; early: mov eax, 4; pop rbx; ret
  const FakeCode image = Image({0x53, 0x85, 0xff, 0x74, 0x11, 0xff, 0x15, 0x00, 0x10, 0x00,
                                0x00, 0x85, 0xc0, 0x74, 0x05, 0xe8, 0x00, 0x10, 0x00, 0x00,
                                0x5b, 0xc3, 0xb8, 0x04, 0x00, 0x00, 0x00, 0x5b, 0xc3});
  const auto graph = Graph(image);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const ExitSites sites = FindExitSites(*graph, WorkRule::kThroughWord);
  EXPECT_EQ(sites.rule, ExitRule::kSiteSet);
  EXPECT_EQ(sites.addresses, At({0xd, 0x1c}));
  // By all calls, only the returns are behind the work.
  EXPECT_EQ(FindExitSites(*graph, WorkRule::kAnyCall).addresses, At({0x15, 0x1c}));
}

TEST(ExitSitesTest, NeverTakesAJumpBeforeTheWork) {
  // push rbx; test eax, eax; jne +0; call rax; pop rbx; ret
  const ExitSites sites = Exits({0x53, 0x85, 0xc0, 0x75, 0x00, 0xff, 0xd0, 0x5b, 0xc3});
  EXPECT_EQ(sites.rule, ExitRule::kReturn);
  EXPECT_EQ(sites.addresses, At({8}));
}

TEST(ExitSitesTest, NeverTakesAJumpInALoop) {
  // push rbx; call rax; L: dec rax; jne L; pop rbx; ret
  const ExitSites sites = Exits({0x53, 0xff, 0xd0, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5b, 0xc3});
  EXPECT_EQ(sites.rule, ExitRule::kReturn);
  EXPECT_EQ(sites.addresses, At({9}));
}

TEST(ExitSitesTest, TwoReturnsGetTwoSites) {
  // Two arms, each: call; test; jne +1; nop; pop; ret
  const ExitSites sites =
      Exits({0x53, 0x85, 0xff, 0x74, 0x09, 0xff, 0xd0, 0x85, 0xc0, 0x75, 0x01, 0x90,
             0x5b, 0xc3, 0xff, 0xd2, 0x85, 0xc0, 0x75, 0x01, 0x90, 0x5b, 0xc3});
  EXPECT_EQ(sites.rule, ExitRule::kSiteSet);
  EXPECT_EQ(sites.addresses, At({0x9, 0x12}));
}

TEST(ExitSitesTest, AnArmWithoutASiteRefusesTheSet) {
  // The second arm has no jump after its call: the ret instructions remain.
  const ExitSites sites = Exits({0x53, 0x85, 0xff, 0x74, 0x09, 0xff, 0xd0, 0x85, 0xc0, 0x75, 0x01,
                                 0x90, 0x5b, 0xc3, 0xff, 0xd2, 0x5b, 0xc3});
  EXPECT_EQ(sites.rule, ExitRule::kReturn);
  EXPECT_EQ(sites.addresses, At({0xd, 0x11}));
}

TEST(ExitSitesTest, ATailCallOfTheCleanUpIsASite) {
  // push rbx; call rax; pop rbx; jmp free
  const int32_t distance = static_cast<int32_t>(kFree - (kBase + 9));
  std::vector<uint8_t> code = {0x53, 0xff, 0xd0, 0x5b, 0xe9, 0, 0, 0, 0};
  std::memcpy(code.data() + 5, &distance, 4);
  const ExitSites sites = Exits(code);
  EXPECT_EQ(sites.rule, ExitRule::kSiteSet);
  EXPECT_EQ(sites.addresses, At({4}));
}

TEST(ExitSitesTest, AnUnknownTailCallHasNoSite) {
  // push rbx; call rax; pop rbx; jmp rax
  EXPECT_EQ(Exits({0x53, 0xff, 0xd0, 0x5b, 0xff, 0xe0}).rule, ExitRule::kNone);
}

TEST(ExitSitesTest, CodeAfterACallThatDoesNotReturnDoesNotCount) {
  // push rbx; call rax; test eax, eax; je +6; call __cxa_throw; nop; pop rbx; ret. The throwing arm
  // must not hide the je.
  const int32_t distance = static_cast<int32_t>(kThrow - (kBase + 12));
  std::vector<uint8_t> code = {0x53, 0xff, 0xd0, 0x85, 0xc0, 0x74, 0x06, 0xe8,
                               0,    0,    0,    0,    0x90, 0x5b, 0xc3};
  std::memcpy(code.data() + 8, &distance, 4);
  const ExitSites sites = Exits(code);
  EXPECT_EQ(sites.rule, ExitRule::kConditional);
  EXPECT_EQ(sites.addresses, At({5}));
}

TEST(ExitSitesTest, AFunctionThatNeverReturnsHasNone) {
  EXPECT_EQ(Exits({0x53, 0xeb, 0xfe}).rule, ExitRule::kNone);  // jmp to itself
  EXPECT_EQ(Exits({0x53, 0x0f, 0x0b}).rule, ExitRule::kNone);  // ud2
}

TEST(FlowGraphTest, RefusesAJumpIntoAnInstruction) {
  // jne into the mov's immediate; mov eax, imm32; ret
  const FakeCode image = Image({0x75, 0x02, 0xb8, 1, 2, 3, 4, 0xc3});
  EXPECT_FALSE(Graph(image).ok());
}

TEST(FlowGraphTest, RefusesCodeThatRunsOutOfTheFunction) {
  const FakeCode image = Image({0x53, 0x90});
  EXPECT_FALSE(Graph(image).ok());
}

TEST(FlowGraphTest, RefusesEmptyHugeAndUnreadableFunctions) {
  const FakeCode image = Image({0xc3});
  EXPECT_FALSE(FlowGraph::Build(image, kBase, kBase).ok());
  EXPECT_FALSE(FlowGraph::Build(image, kBase, UINT64_MAX).ok());
  EXPECT_FALSE(FlowGraph::Build(image, 0x5000, 0x5010).ok());
}

TEST(FlowGraphTest, FollowsAJumpTable) {
  // cmp edi, 1; ja L2; mov eax, edi; lea rdx, [rip+table]; movsxd rax, [rdx+rax*4]; add rax, rdx;
  // jmp rax L1: call rcx; ret (offset 0x18); L2: ret (0x1b)
  constexpr uint64_t kTable = kBase + 0x100;
  std::vector<uint8_t> code = {0x83, 0xff, 0x01, 0x77, 0x16, 0x89, 0xf8, 0x48, 0x8d, 0x15,
                               0,    0,    0,    0,    0x48, 0x63, 0x04, 0x82, 0x48, 0x01,
                               0xd0, 0xff, 0xe0, 0x90, 0xff, 0xd1, 0xc3, 0xc3};
  const int32_t to_table = static_cast<int32_t>(kTable - (kBase + 14));
  std::memcpy(code.data() + 10, &to_table, 4);
  FakeCode image = Image(code);
  std::vector<uint8_t> table(12);
  for (int i = 0; i < 3; ++i) {
    const int32_t entry = static_cast<int32_t>(kBase + (i == 0 ? 0x18 : 0x1b) - kTable);
    std::memcpy(table.data() + 4 * i, &entry, 4);
  }
  image.Add(kTable, table);
  const auto graph = Graph(image);
  ASSERT_TRUE(graph.ok()) << graph.status();
  bool found = false;
  for (size_t i = 0; i < graph->size(); ++i) {
    if (graph->node(i).instruction.kind != InstructionKind::kIndirectJump) continue;
    found = true;
    const auto next = graph->successors(i);
    EXPECT_EQ(next.last - next.first, 2);
    EXPECT_EQ(graph->node(i).end, NodeEnd::kNone);
  }
  EXPECT_TRUE(found);
}

TEST(FlowGraphTest, FollowsAJumpTableThatALoopKeepsInARegister) {
  // lea r14, [rip+table]; L: call rcx; cmp dl, 1; ja L2 (0x1f); movzx eax, dl; movsxd rax,
  // [r14+rax*4]; add rax, r14; jmp rax; (0x1d) jmp L; L2: ret
  constexpr uint64_t kTable = kBase + 0x100;
  const auto code_with = [&](uint8_t far_register) {
    std::vector<uint8_t> code = {far_register, 0x8d, 0x35, 0,    0,    0,    0,    0xff,
                                 0xd1,         0x80, 0xfa, 0x01, 0x77, 0x0f, 0x0f, 0xb6,
                                 0xc2,         0x49, 0x63, 0x04, 0x86, 0x4c, 0x01, 0xf0,
                                 0xff,         0xe0, 0x90, 0x90, 0x90, 0xeb, 0xe8, 0xc3};
    const int32_t to_table = static_cast<int32_t>(kTable - (kBase + 7));
    std::memcpy(code.data() + 3, &to_table, 4);
    return code;
  };
  std::vector<uint8_t> table(12);
  for (int i = 0; i < 3; ++i) {
    const int32_t entry = static_cast<int32_t>(kBase + (i == 0 ? 0x1d : 0x1f) - kTable);
    std::memcpy(table.data() + 4 * i, &entry, 4);
  }
  const auto ways_of_jump = [&](uint8_t far_register) {
    FakeCode image = Image(code_with(far_register));
    image.Add(kTable, table);
    const auto graph = Graph(image);
    EXPECT_TRUE(graph.ok()) << graph.status();
    for (size_t i = 0; graph.ok() && i < graph->size(); ++i) {
      if (graph->node(i).instruction.kind != InstructionKind::kIndirectJump) continue;
      const auto next = graph->successors(i);
      return next.last - next.first;
    }
    return std::ptrdiff_t{-1};
  };
  EXPECT_EQ(ways_of_jump(0x4c), 2);  // lea r14
  EXPECT_EQ(ways_of_jump(0x48), 0);  // lea rsi: not what the load takes
}

TEST(FlowGraphTest, FollowsAColdPartThatComesBack) {
  // push rbx; test eax, eax; jne cold; call rax; test eax, eax; jne +0; pop rbx; ret. Cold: jmp
  // back to the call.
  constexpr uint64_t kCold = kBase + 0x400;
  std::vector<uint8_t> code = {0x53, 0x85, 0xc0, 0x0f, 0x85, 0,    0,    0,   0,
                               0xff, 0xd0, 0x85, 0xc0, 0x75, 0x00, 0x5b, 0xc3};
  const int32_t there = static_cast<int32_t>(kCold - (kBase + 9));
  std::memcpy(code.data() + 5, &there, 4);
  std::vector<uint8_t> cold = {0xe9, 0, 0, 0, 0};
  const int32_t back = static_cast<int32_t>(kBase + 9 - (kCold + 5));
  std::memcpy(cold.data() + 1, &back, 4);
  for (const std::string name : {"f.cold", ""}) {
    FakeCode image = Image(code);
    image.Add(kCold, cold, name);
    const auto graph = Graph(image);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const ExitSites sites = FindExitSites(*graph, WorkRule::kDispatch);
    EXPECT_EQ(sites.rule, ExitRule::kConditional) << name;
    EXPECT_EQ(sites.addresses, At({13})) << name;
  }
}

TEST(BeginSiteTest, SkipsEndbr64) {
  const FakeCode image = Image({0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x5b, 0xc3});
  const auto begin = FindBeginSite(*Graph(image));
  ASSERT_TRUE(begin);
  EXPECT_EQ(begin->address, kBase + 4);
  EXPECT_TRUE(begin->emulated);
}

TEST(BeginSiteTest, FindsASecondPushBehindRegisterMovesOnly) {
  // push rbp; mov rbp, rsp; push r15; ...
  const FakeCode plain = Image({0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x5f, 0x5d, 0xc3});
  EXPECT_EQ(FindBeginSite(*Graph(plain))->next, kBase + 4);
  // push rbp; mov rbp, [rdi]; push r15: a load may take any time
  const FakeCode load = Image({0x55, 0x48, 0x8b, 0x2f, 0x41, 0x57, 0x41, 0x5f, 0x5d, 0xc3});
  EXPECT_EQ(FindBeginSite(*Graph(load))->next, 0u);
  // push rbp; test edi, edi; jne +2; push r15; ret: not on every way
  const FakeCode branch = Image({0x55, 0x85, 0xff, 0x75, 0x02, 0x41, 0x57, 0xc3});
  EXPECT_EQ(FindBeginSite(*Graph(branch))->next, 0u);
}

TEST(BeginSiteTest, MovesToAnEmulatedInstructionWhileTheArgumentsStand) {
  // test rdi, rdi; jne +0; ret
  const FakeCode image = Image({0x48, 0x85, 0xff, 0x75, 0x00, 0xc3});
  const auto begin = FindBeginSite(*Graph(image));
  ASSERT_TRUE(begin);
  EXPECT_EQ(begin->address, kBase + 3);
}

TEST(BeginSiteTest, StaysWhereTheStackPointerOrAnArgumentChanges) {
  for (const std::vector<uint8_t>& code : {
           std::vector<uint8_t>{0x48, 0x83, 0xec, 0x08, 0x53, 0xc3},  // sub rsp, 8; push rbx
           std::vector<uint8_t>{0x31, 0xff, 0x53, 0xc3},              // xor edi, edi; push rbx
           std::vector<uint8_t>{0x41, 0xb8, 1, 0, 0, 0, 0x53, 0xc3},  // mov r8d, 1; push rbx
       }) {
    const FakeCode image = Image(code);
    const auto begin = FindBeginSite(*Graph(image));
    ASSERT_TRUE(begin);
    EXPECT_EQ(begin->address, kBase);
    EXPECT_FALSE(begin->emulated);
  }
}

TEST(BeginSiteTest, NoneWhereTheEntryIsALoop) {
  const FakeCode image = Image({0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3});  // L: dec rax; jne L; ret
  EXPECT_FALSE(FindBeginSite(*Graph(image)));
}

TEST(InstructionTest, KnowsWhatTheKernelEmulates) {
  const struct {
    std::vector<uint8_t> bytes;
    InstructionKind kind;
    bool emulated;
  } cases[] = {
      {{0x53}, InstructionKind::kPush, true},
      {{0x41, 0x57}, InstructionKind::kPush, true},
      {{0x90}, InstructionKind::kNop, true},
      {{0x66, 0x90}, InstructionKind::kNop, false},
      {{0x0f, 0x1f, 0x00}, InstructionKind::kOther, false},
      {{0x75, 0x00}, InstructionKind::kConditionalJump, true},
      {{0x0f, 0x85, 0, 0, 0, 0}, InstructionKind::kConditionalJump, true},
      {{0xe3, 0x00}, InstructionKind::kCountJump, false},
      {{0xe8, 0, 0, 0, 0}, InstructionKind::kCall, true},
      {{0xff, 0xd0}, InstructionKind::kIndirectCall, false},
      {{0xff, 0x15, 0, 0, 0, 0}, InstructionKind::kIndirectCall, false},
      {{0x3e, 0xff, 0xe0}, InstructionKind::kIndirectJump, false},
      {{0xf3, 0xc3}, InstructionKind::kReturn, false},
      {{0xf3, 0x0f, 0x1e, 0xfa}, InstructionKind::kEndbr64, false},
  };
  for (const auto& expected : cases) {
    const auto code = DecodeAll(expected.bytes.data(), expected.bytes.size(), kBase);
    ASSERT_EQ(code.size(), 1u);
    EXPECT_EQ(code[0].size, expected.bytes.size());
    EXPECT_EQ(code[0].kind, expected.kind);
    EXPECT_EQ(code[0].emulated, expected.emulated);
  }
}

TEST(CallScanTest, FindsCallsAtEveryPlaceOfABuffer) {
  constexpr uint64_t kTarget = 0x40000;
  for (size_t at = 0; at < 60; ++at) {
    std::vector<uint8_t> bytes(80, 0x90);
    const int32_t distance = static_cast<int32_t>(kTarget - (kBase + at + 5));
    bytes[at] = 0xe8;
    std::memcpy(bytes.data() + at + 1, &distance, 4);
    std::vector<CallSite> sites;
    ScanBuffer(bytes.data(), bytes.size(), bytes.size(), kBase, {kTarget}, &sites);
    ASSERT_EQ(sites.size(), 1u) << at;
    EXPECT_EQ(sites[0].address, kBase + at);
  }
}

TEST(CallScanTest, ACallCutByTheEndOfTheBufferIsNotRead) {
  std::vector<uint8_t> bytes(19, 0xe8);
  std::vector<CallSite> sites;
  ScanBuffer(bytes.data(), bytes.size(), bytes.size(), kBase, {0}, &sites);
  EXPECT_TRUE(sites.empty());
}

// Whatever the bytes: no crash, and if there are sites, each walk through the function that returns
// passes exactly one of them, and each is an instruction.
TEST(ExitSitesTest, EveryNormalWalkThroughRandomCodePassesOneSite) {
  std::mt19937 random(20260101);
  const std::vector<std::vector<uint8_t>> pieces = {
      {0x90}, {0x53},    {0x85, 0xc0}, {0x48, 0xff, 0xc8}, {0xff, 0xd0},
      {0xc3}, {0x75, 0}, {0x74, 0},    {0xeb, 0}};
  size_t with_sites = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> code;
    std::vector<size_t> starts;
    std::vector<size_t> jumps;
    const size_t length = 6 + random() % 30;
    for (size_t i = 0; i < length; ++i) {
      const auto& piece = pieces[random() % pieces.size()];
      starts.push_back(code.size());
      if (piece.size() == 2 && piece[1] == 0) jumps.push_back(code.size());
      code.insert(code.end(), piece.begin(), piece.end());
    }
    code.push_back(0xc3);
    for (const size_t jump : jumps) {
      const int distance =
          static_cast<int>(starts[random() % starts.size()]) - static_cast<int>(jump + 2);
      if (distance >= -128 && distance < 128) code[jump + 1] = static_cast<uint8_t>(distance);
    }
    const FakeCode image = Image(code);
    const auto graph = Graph(image);
    if (!graph.ok()) continue;
    const ExitSites sites = FindExitSites(*graph, WorkRule::kDispatch);
    if (sites.rule == ExitRule::kNone) continue;
    ++with_sites;
    for (int walk = 0; walk < 20; ++walk) {
      size_t node = 0;
      size_t passed = 0;
      size_t work_after_site = 0;
      for (int step = 0; step < 400; ++step) {
        const uint64_t address = graph->node(node).instruction.address;
        if (passed > 0) work_after_site += graph->node(node).is_indirect;
        passed += std::binary_search(sites.addresses.begin(), sites.addresses.end(), address);
        const auto next = graph->successors(node);
        if (next.first == next.last) break;
        node = next.first[random() % static_cast<size_t>(next.last - next.first)];
      }
      if (graph->node(node).end != NodeEnd::kReturn) continue;
      ASSERT_EQ(passed, 1u) << "round " << round;
      ASSERT_EQ(work_after_site, 0u) << "round " << round;
    }
  }
  EXPECT_GT(with_sites, 300u);
}

TEST(ExitSitesTest, SurvivesRandomBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> code(1 + random() % 200);
    for (uint8_t& byte : code) byte = static_cast<uint8_t>(random());
    const FakeCode image = Image(code);
    const auto graph = Graph(image);
    if (!graph.ok()) continue;
    FindExitSites(*graph, WorkRule::kDispatch);
    FindExitSites(*graph, WorkRule::kNamed);
    FindBeginSite(*graph);
  }
}

}  // namespace
}  // namespace proftrace
