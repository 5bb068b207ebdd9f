// Sequence numbers, forward threads and arrows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/pipeline/timeline.h"
#include "userspace/merge/forward_links.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

constexpr uint16_t kEngine = 6;
constexpr uint16_t kNode = 7;
constexpr uint64_t kAddBackward = 0xa0;

SpanSequence SequenceOf(const Timeline& timeline, uint32_t span) {
  return timeline.columns().sequence.at(SpanId{span});
}

// The engine's row and the node's in it, on thread `tid`, from `ns` to `ns` + 9.
void RunNode(RecordMaker* maker, uint32_t tid, int64_t ns, uint64_t number, uint64_t thread) {
  maker->Node(tid, ns, kEngine, 0, kAddBackward, 0, "");
  maker->Node(tid, ns + 1, kNode, 1, kAddBackward, 0, "");
  maker->NodeForward(tid, ns + 1, 1, number, thread);
  maker->End(tid, ns + 8, kNode, 1);
  maker->End(tid, ns + 9, kEngine, 0);
}

TEST(AutogradTest, ANodeIsLinkedToTheLastForwardRowWithItsNumber) {
  RecordMaker maker;
  maker.ThreadNumber(1, 5, 3);
  maker.Numbered(1, 10, 1, 0, 0);  // the first number is 0
  maker.End(1, 11, 1, 0);
  maker.Numbered(1, 20, 2, 0, 1);
  maker.Numbered(1, 21, 3, 1, 1);  // composite: the inner one makes the node
  maker.End(1, 22, 3, 1);
  maker.End(1, 23, 2, 0);
  RunNode(&maker, 2, 30, 1, 3);
  const auto timeline = Build(maker);
  EXPECT_EQ(SequenceOf(*timeline, 0).number_plus_1, 1);
  EXPECT_FALSE(SequenceOf(*timeline, 0).is_backward());
  const SpanSequence engine = SequenceOf(*timeline, 3);
  const SpanSequence node = SequenceOf(*timeline, 4);
  EXPECT_EQ(node.number_plus_1, 2);
  EXPECT_EQ(node.forward_tid, 1u);
  EXPECT_EQ(node.forward_number, 3u);
  EXPECT_EQ(node.forward_plus_1, 2u + 1);
  EXPECT_TRUE(node.has_arrow);
  EXPECT_EQ(engine.number_plus_1, 2);
  EXPECT_EQ(engine.forward_plus_1, 2u + 1);
  EXPECT_EQ(engine.forward_tid, 1u);
  EXPECT_FALSE(engine.has_arrow);
}

TEST(AutogradTest, OneForwardHasOneArrow) {
  RecordMaker maker;
  maker.ThreadNumber(1, 5, 1);
  maker.Numbered(1, 10, 1, 0, 7);
  maker.End(1, 11, 1, 0);
  RunNode(&maker, 1, 20, 7, 1);
  RunNode(&maker, 1, 40, 7, 1);  // the graph was kept
  const auto timeline = Build(maker);
  EXPECT_TRUE(SequenceOf(*timeline, 2).has_arrow);
  EXPECT_FALSE(SequenceOf(*timeline, 4).has_arrow);
  EXPECT_EQ(SequenceOf(*timeline, 4).forward_tid, 1u);
}

TEST(AutogradTest, NumbersOfTwoThreadsAreTwoNumbers) {
  RecordMaker maker;
  maker.ThreadNumber(1, 1, 1);
  maker.ThreadNumber(2, 2, 2);
  maker.Numbered(1, 10, 1, 0, 7);
  maker.End(1, 11, 1, 0);
  maker.Numbered(2, 12, 2, 0, 7);
  maker.End(2, 13, 2, 0);
  RunNode(&maker, 3, 20, 7, 1);
  const auto timeline = Build(maker);
  EXPECT_EQ(SequenceOf(*timeline, 3).forward_plus_1, 0u + 1);
}

TEST(AutogradTest, AnEngineRowWhoseHooksRunOperatorsFirstHasNoNumber) {
  RecordMaker maker;
  maker.Node(1, 20, kEngine, 0, kAddBackward, 0, "");
  maker.Begin(1, 21, 1, 1);
  maker.End(1, 22, 1, 1);
  maker.Node(1, 23, kNode, 1, kAddBackward, 0, "");
  maker.NodeForward(1, 23, 1, 4, 1);
  const auto timeline = Build(maker);
  EXPECT_EQ(SequenceOf(*timeline, 0).number_plus_1, 0);
  EXPECT_EQ(SequenceOf(*timeline, 2).number_plus_1, 5);
}

TEST(AutogradTest, AnEngineRowThatCallsNoNodeHasTheNumberOfTheNodeAfterIt) {
  RecordMaker maker;
  maker.ThreadNumber(1, 5, 1);
  maker.Numbered(1, 10, 1, 0, 4);
  maker.End(1, 11, 1, 0);
  maker.Node(1, 20, kEngine, 0, kAddBackward, 0, "");
  maker.End(1, 21, kEngine, 0);
  maker.Node(1, 23, kNode, 0, kAddBackward, 0, "");
  maker.NodeForward(1, 23, 0, 4, 1);
  maker.End(1, 24, kNode, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(SequenceOf(*timeline, 1).number_plus_1, 5);
  EXPECT_EQ(SequenceOf(*timeline, 1).forward_tid, 1u);
  EXPECT_TRUE(SequenceOf(*timeline, 1).has_arrow);  // of two rows the one that ends first
  EXPECT_EQ(SequenceOf(*timeline, 2).number_plus_1, 5);
  EXPECT_FALSE(SequenceOf(*timeline, 2).has_arrow);
}

TEST(AutogradTest, AfterALossANodeIsNotTheRowAfterTheEngines) {
  RecordMaker maker;
  maker.Node(1, 20, kEngine, 0, kAddBackward, 0, "");
  maker.End(1, 21, kEngine, 0);
  maker.Loss(1, 22, 3);
  maker.Node(1, 23, kNode, 0, kAddBackward, 0, "");
  maker.NodeForward(1, 23, 0, 4, 1);
  const auto timeline = Build(maker);
  EXPECT_EQ(SequenceOf(*timeline, 0).number_plus_1, 0);
  EXPECT_EQ(SequenceOf(*timeline, 1).number_plus_1, 5);
}

TEST(AutogradTest, AThreadMayBeNumberedAfterItsRowsAreNamed) {
  RecordMaker maker;
  RunNode(&maker, 2, 20, 7, 1);
  maker.ThreadNumber(1, 50, 1);
  const auto timeline = Build(maker);
  EXPECT_EQ(SequenceOf(*timeline, 1).forward_tid, 1u);
  EXPECT_FALSE(SequenceOf(*timeline, 1).has_arrow);
}

TEST(AutogradTest, ANumberGoesToTheRowOfItsStackPointerOnly) {
  RecordMaker maker;
  maker.Boxed(1, 10, 5, 1, 0x1000);
  maker.Sequence(1, 11, 1, 8);
  maker.Begin(1, 12, 1, 2);
  maker.Sequence(1, 13, 1, 9);  // of a row whose begin was lost
  maker.Guard(abi::PT_GUARD_BEGIN, 1, 14, 3, 0xf00, 0, 0, "Mine");
  maker.Sequence(1, 14, 3, 9);
  const auto timeline = Build(maker);
  EXPECT_EQ(SequenceOf(*timeline, 0).number_plus_1, 9);
  EXPECT_EQ(SequenceOf(*timeline, 1).number_plus_1, 0);
  EXPECT_EQ(SequenceOf(*timeline, 2).number_plus_1, 10);
}

TEST(AutogradTest, WhatCannotBeANumberIsNone) {
  RecordMaker maker;
  maker.Numbered(1, 10, 1, 0, UINT64_MAX);
  maker.Node(1, 20, kNode, 1, kAddBackward, 0, "");
  maker.NodeForward(1, 20, 1, uint64_t{1} << 48, 1);
  maker.NodeForward(1, 20, 1, 5, 0);
  maker.NodeForward(1, 20, 1, 5, uint64_t{1} << 40);
  maker.ThreadNumber(1, 30, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(SequenceOf(*timeline, 0).number_plus_1, 0);
  EXPECT_EQ(SequenceOf(*timeline, 1).number_plus_1, 0);
  EXPECT_EQ(timeline->ledger().read_failed, 3u);
}

TEST(AutogradTest, ForwardRowsThatWaitForeverAreForgotten) {
  TimelineBuilder builder("");
  ForwardLinks links(&builder);
  links.SetThreadNumber(Pid{1}, Tid{1}, 1);
  SpanSequence sequence;
  const auto add = [&](int64_t number, uint32_t forward_number) {
    sequence.number_plus_1 = number;
    sequence.forward_number = forward_number;
    const SpanId span = builder.AddSpan(Span{}).value();
    EXPECT_TRUE(builder.columns().sequence.Set(span, sequence).ok());
    EXPECT_TRUE(links.OnClose(Pid{1}, Tid{1}, span).ok());
    return builder.columns().sequence.at(span).forward_plus_1;
  };
  const auto count = static_cast<int64_t>(ForwardLinks::kMostWaiting + 1);
  for (int64_t number = 1; number <= count; ++number) add(number, 0);
  EXPECT_EQ(add(1, 1), 0u);
  EXPECT_EQ(add(count, 1), count);
}

// What is open when the recording ends is truncated thread by thread, in their order: else arrows
// were there in some replays and not in others.
TEST(AutogradTest, ThreadsThatAreTruncatedComeInTheirOrder) {
  constexpr uint32_t kPairs = 16;
  RecordMaker maker;
  for (uint32_t i = 0; i < kPairs; ++i) {
    const uint32_t forward = 200 + i;
    const int64_t ns = 10 + 10 * i;
    maker.ThreadNumber(forward, ns, 10 + i);
    maker.Numbered(forward, ns + 1, 1, 0, 77 + i);
    maker.Node(300 + i, ns + 2, kNode, 0, kAddBackward, 0, "");
    maker.NodeForward(300 + i, ns + 2, 0, 77 + i, 10 + i);
  }
  const auto timeline = Build(maker);
  for (uint32_t i = 0; i < kPairs; ++i) {
    EXPECT_EQ(SequenceOf(*timeline, 2 * i + 1).forward_plus_1, 2 * i + 1) << i;
  }
}

TEST(AutogradTest, AProcessThatEndsTakesItsOwnRowsAlone) {
  RecordMaker maker;
  maker.ThreadNumber(1, 5, 1);
  maker.Numbered(1, 10, 1, 0, 4);
  maker.End(1, 11, 1, 0);
  RecordMaker other(RecordMaker::kPid + 1);
  other.ThreadNumber(1, 5, 1);
  other.ThreadExit(1, 12, /*group_dead=*/true);
  VectorSource source;
  source.Add(maker.bytes());
  source.Add(other.bytes());
  RecordMaker later;
  RunNode(&later, 2, 20, 4, 1);
  source.Add(later.bytes());
  const auto timeline = Build(TestMetadata(), std::move(source));
  EXPECT_TRUE(SequenceOf(*timeline, 2).has_arrow);
}

// The classes of torch.library's register_autograd have the operator's namespace and name in them.
TEST(AutogradTest, ClassesOfFunctionsHaveTheirWholeNames) {
  for (const size_t length : {62, 63, 64, 100, 2062, 2063, 2064, 4096, 5000}) {
    const std::string name = std::string(length - 8, 'x') + "Backward";
    RecordMaker maker;
    maker.Node(1, 10, kEngine, 0, kAddBackward, 0x99, name);
    maker.Node(1, 20, kNode, 1, kAddBackward, 0x99, name);
    maker.End(1, 30, kNode, 1);
    maker.End(1, 40, kEngine, 0);
    const auto timeline = Build(maker);
    const std::string whole = length <= PT_NAME_BYTES ? name : name.substr(0, PT_NAME_BYTES) + "…";
    ASSERT_EQ(timeline->span_count(), 2u) << length;
    EXPECT_EQ(NameOf(*timeline, 0), "autograd::engine::evaluate_function: " + whole);
    EXPECT_EQ(NameOf(*timeline, 1), whole);
    EXPECT_EQ(timeline->ledger().names_cut, length <= PT_NAME_BYTES ? 0u : 2u);
    EXPECT_EQ(timeline->label(timeline->span(SpanId{1}).label).scope, Scope::kBackwardFunction);
  }
}

TEST(AutogradTest, DistributedAutogradRunsNodesWithoutTheEnginesRow) {
  constexpr uint16_t kDistributed = 1;
  CaptureMetadata metadata = TestMetadata();
  metadata.plans[1].sites[kDistributed] = {std::string(kDistEngineName), "", Category::kCpuOp,
                                           Scope::kFunction, SpanKind::kAutograd};
  RecordMaker maker;
  const auto run_node = [&maker](int64_t ns, uint32_t depth) {
    maker.Node(1, ns, kEngine, depth, kAddBackward, 0, "");
    maker.Node(1, ns + 1, kNode, depth + 1, kAddBackward, 0, "");
  };
  const auto end_node = [&maker](int64_t ns, uint32_t depth) {
    maker.End(1, ns, kNode, depth + 1);
    maker.End(1, ns + 1, kEngine, depth);
  };
  maker.Begin(1, 10, kDistributed, 0);
  run_node(20, 1);
  run_node(30, 5);  // backward() in a Function's backward(): by the engine's own loop
  end_node(40, 5);
  end_node(50, 1);
  run_node(60, 1);
  end_node(70, 1);
  maker.End(1, 80, kDistributed, 0);
  run_node(90, 1);
  end_node(100, 1);
  const auto timeline = Build(maker, metadata);
  const std::string row = "autograd::engine::evaluate_function: AddBackward0";
  EXPECT_THAT(Paths(*timeline), ::testing::ElementsAre("AddBackward0", "AddBackward0>" + row,
                                                       "AddBackward0>" + row + ">AddBackward0",
                                                       "AddBackward0", row, row + ">AddBackward0"));
  EXPECT_EQ(timeline->ledger().begins, 6u);
  EXPECT_EQ(timeline->ledger().closed, 6u);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

}  // namespace
}  // namespace proftrace
