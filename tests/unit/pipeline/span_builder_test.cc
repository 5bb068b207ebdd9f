#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/unit/pipeline/timeline.h"
#include "userspace/aggregate/event_order.h"
#include "userspace/aggregate/wait_sums.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;

TEST(SpanBuilderTest, CallsNestByTheirStackPointers) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(1, 20, 2, 1);
  maker.End(1, 30, 2, 1);
  maker.Begin(1, 40, 3, 1);
  maker.End(1, 45, 3, 1);
  maker.End(1, 50, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::a>aten::b", "aten::a>aten::c"));
  const Span& root = timeline->span(SpanId{0});
  EXPECT_EQ(root.duration_ns, 40);
  EXPECT_EQ(root.self_ns, 25);
  EXPECT_EQ(root.child_count, 2);
  EXPECT_EQ(timeline->span(SpanId{1}).depth, 1);
  EXPECT_EQ(timeline->ledger().closed, 3u);
}

// As a thread's that was off the CPU for long between its clock and its writing.
TEST(SpanBuilderTest, SpansAreInOrderWhateverComesLate) {
  RecordMaker on_time;
  on_time.Begin(1, 1000, 1, 1);
  on_time.Allocation(1, 1050, 0x1000, 64);
  on_time.End(1, 1100, 1, 1);
  on_time.Begin(1, 1'000'000'000, 4, 1);
  on_time.End(1, 1'000'000'100, 4, 1);
  RecordMaker late;
  late.Begin(2, 500, 2, 1);
  late.Begin(2, 600, 3, 2);
  late.End(2, 700, 3, 2);
  late.End(2, 2'000'000'000, 2, 1);
  VectorSource source;
  source.Add(on_time.bytes());
  source.Add(late.bytes());
  CaptureMetadata metadata = TestMetadata();
  metadata.processes[0].target.memory_recorded = true;
  const auto timeline = Build(metadata, std::move(source));
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::b", "aten::b>aten::c", "aten::d"));
  std::vector<int64_t> starts;
  std::vector<uint64_t> ids;
  const StepRows steps;
  const EventOrder order(*timeline, steps);
  for (uint32_t i = 0; i < timeline->span_count(); ++i) {
    starts.push_back(timeline->span(SpanId{i}).start_ns);
    ids.push_back(order.IdOfSpan(SpanId{i}));
  }
  EXPECT_THAT(starts, ElementsAre(1000, 1100, 1100, 1'000'000'000));
  EXPECT_THAT(ids, ElementsAre(0, 2, 3, 4)) << "the allocation is the second row";
  EXPECT_EQ(timeline->span(SpanId{1}).end_ns(), 2'000'000'000);
  EXPECT_EQ(timeline->ledger().late, 3u);
}

TEST(SpanBuilderTest, ThreadsDoNotMix) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(2, 11, 2, 5);
  maker.End(1, 12, 1, 0);
  maker.End(2, 13, 2, 5);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::b"));
  EXPECT_EQ(timeline->threads().size(), 2u);
}

TEST(SpanBuilderTest, ExceptionClosesWhatItUnwoundAndNothingAbove) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(1, 20, 2, 2);
  maker.Begin(1, 30, 3, 4);
  maker.Catch(1, 40, RecordMaker::Sp(1));  // a handler between a and b
  maker.Begin(1, 50, 4, 6);                // deeper than the dead ones
  maker.End(1, 60, 4, 6);
  maker.End(1, 70, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::a>aten::b", "aten::a>aten::b>aten::c",
                                            "aten::a>aten::d"));
  EXPECT_EQ(timeline->span(SpanId{1}).end, SpanEnd::kException);
  EXPECT_EQ(timeline->span(SpanId{1}).duration_ns, 20);
  EXPECT_EQ(timeline->span(SpanId{2}).end, SpanEnd::kException);
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kReturn);
  EXPECT_EQ(timeline->ledger().end_by_exception, 2u);
}

TEST(SpanBuilderTest, LostEndIsFoundByTheNextBegin) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(1, 20, 2, 1);
  // no end of b
  maker.Begin(1, 30, 3, 1);
  maker.End(1, 40, 3, 1);
  maker.End(1, 50, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::a>aten::b", "aten::a>aten::c"));
  EXPECT_EQ(timeline->span(SpanId{1}).end, SpanEnd::kLost);
  EXPECT_EQ(timeline->ledger().end_lost, 1u);
}

TEST(SpanBuilderTest, LostEndIsFoundByTheEndOfItsCaller) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(1, 20, 2, 1);
  maker.End(1, 50, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{1}).end, SpanEnd::kLost);
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kReturn);
}

TEST(SpanBuilderTest, EndWithoutBeginClosesNothing) {
  RecordMaker maker;
  maker.End(1, 5, 3, 3);
  maker.Begin(1, 10, 1, 0);
  maker.End(1, 20, 2, 1);
  maker.End(1, 30, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a"));
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 20);
  EXPECT_EQ(timeline->ledger().unmatched_end, 2u);
}

TEST(SpanBuilderTest, LossMarkerTruncatesOnlyItsThread) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(2, 11, 2, 0);
  maker.Begin(1, 20, 3, 1);
  maker.Loss(1, 100, 7);
  maker.Begin(1, 110, 4, 2);
  maker.End(1, 120, 4, 2);
  maker.End(2, 130, 2, 0);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::b", "aten::a>aten::c", "aten::d"));
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kTruncated);
  EXPECT_EQ(timeline->span(SpanId{0}).end_ns(), 20) << "known to run up to the last record before";
  EXPECT_EQ(timeline->span(SpanId{1}).end, SpanEnd::kReturn);
  EXPECT_EQ(timeline->ledger().truncated, 2u);
}

TEST(SpanBuilderTest, ALossOfUnknownThreadsTruncatesAll) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(2, 20, 2, 0);
  maker.LossAnywhere(3, 30, 7);
  maker.Begin(1, 40, 3, 2);
  maker.End(1, 50, 3, 2);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::b", "aten::c"));
  EXPECT_EQ(timeline->ledger().truncated, 2u);
  EXPECT_EQ(timeline->ledger().gaps, 1u);
  EXPECT_EQ(timeline->ledger().malformed, 0u);
}

TEST(SpanBuilderTest, GapTruncatesAllThreads) {
  RecordMaker before;
  before.Begin(1, 10, 1, 0);
  before.Begin(2, 20, 2, 0);
  RecordMaker after;
  after.End(1, 30, 1, 0);
  VectorSource source;
  source.Add(before.bytes());
  source.Add(after.bytes(), /*gap_before=*/true);
  const auto timeline = Build(TestMetadata(), std::move(source));
  EXPECT_EQ(timeline->ledger().truncated, 2u);
  EXPECT_EQ(timeline->ledger().unmatched_end, 1u);
}

TEST(SpanBuilderTest, WhatIsOpenAtTheEndIsTruncated) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(1, 20, 2, 1);
  maker.End(1, 30, 2, 1);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kTruncated);
  EXPECT_EQ(timeline->span(SpanId{1}).end, SpanEnd::kReturn);
}

TEST(SpanBuilderTest, AnnotationEncloses) {
  RecordMaker maker;
  maker.Boxed(1, 10, 5, 3, 0x2000);
  maker.AnnotationBegin(1, 11, "step");
  maker.AnnotationHandle(1, 12, 0xabc);
  maker.End(1, 13, 5, 3);
  maker.Begin(1, 20, 1, 8);
  maker.End(1, 30, 1, 8);
  maker.Boxed(1, 40, 5, 3, 0x3000);
  maker.AnnotationEnd(1, 41, 0xabc);
  maker.End(1, 42, 5, 3);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("step", "step>aten::a"));
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 30);
  EXPECT_EQ(timeline->span(SpanId{0}).self_ns, 20);
  EXPECT_EQ(timeline->ledger().begins, 2u) << "enter and exit are no rows, as in torch";
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

TEST(SpanBuilderTest, AnnotationsEndByHandleInAnyOrder) {
  RecordMaker maker;
  maker.AnnotationBegin(1, 10, "first");
  maker.AnnotationHandle(1, 11, 1);
  maker.AnnotationBegin(1, 20, "second");
  maker.AnnotationHandle(1, 21, 2);
  maker.AnnotationEnd(1, 30, 1);
  maker.AnnotationEnd(1, 40, 2);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).end_ns(), 30);
  EXPECT_EQ(timeline->span(SpanId{0}).self_ns, 20) << "as in torch";
  EXPECT_EQ(timeline->columns().shared_ns.at(SpanId{0}), 10);
  EXPECT_EQ(timeline->span(SpanId{1}).end_ns(), 40);
  EXPECT_TRUE(timeline->span(SpanId{1}).overlaps);
  EXPECT_EQ(timeline->ledger().partial_overlap, 1u);
}

TEST(SpanBuilderTest, AnnotationMayEndOnAnotherThread) {
  RecordMaker maker;
  maker.AnnotationBegin(1, 10, "async");
  maker.AnnotationHandle(1, 11, 9);
  maker.AnnotationEnd(2, 50, 9);
  const auto timeline = Build(maker);
  EXPECT_TRUE(timeline->span(SpanId{0}).is_async);
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 40);
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kReturn);
}

TEST(SpanBuilderTest, HandleInUseTwiceEndsTheLaterAnnotation) {
  RecordMaker maker;
  for (uint32_t tid = 1; tid <= 8; ++tid) {
    maker.AnnotationBegin(tid, 1000 + tid, "n" + std::to_string(tid));
    maker.AnnotationHandle(tid, 2000 + tid, 0x51);
  }
  maker.AnnotationEnd(9, 3000, 0x51);
  const auto timeline = Build(maker);
  for (uint32_t i = 0; i < timeline->span_count(); ++i) {
    EXPECT_EQ(timeline->span(SpanId{i}).is_async, NameOf(*timeline, i) == "n8");
  }
}

TEST(SpanBuilderTest, ThreadIdIsUsedAgain) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.ThreadExit(1, 20, false);
  maker.Begin(1, 30, 2, 9);
  maker.End(1, 40, 2, 9);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::b"));
  EXPECT_EQ(timeline->threads().size(), 2u);
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kTruncated);
}

TEST(SpanBuilderTest, ExecEndsEverythingOfTheProcess) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(2, 11, 1, 0);
  maker.Exec(1, 20);
  maker.Begin(1, 30, 2, 0);
  maker.End(1, 31, 2, 0);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::a", "aten::b"));
  EXPECT_EQ(timeline->ledger().truncated, 2u);
}

TEST(SpanBuilderTest, OnlyTheWindowIsShown) {
  CaptureMetadata metadata = TestMetadata();
  metadata.processes[0].target.probes_on_ns = 15;
  metadata.info.window.start_ns = 15;
  metadata.info.window.duration_ns = 85;
  metadata.has_end = true;
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);  // before all probes were live: it nests, but is not shown
  maker.Begin(1, 20, 2, 1);
  maker.End(1, 30, 2, 1);
  maker.End(1, 40, 1, 0);
  maker.Begin(1, 90, 3, 0);
  maker.Begin(1, 101, 4, 1);  // after the stop
  maker.End(1, 102, 4, 1);
  maker.End(1, 103, 3, 0);  // begun inside: its end counts
  const auto timeline = Build(maker, metadata);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::b", "aten::c"));
  EXPECT_EQ(timeline->span(SpanId{1}).end, SpanEnd::kReturn);
  EXPECT_EQ(timeline->ledger().outside_window, 2u);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

// Ranges of ITT and NVTX: annotations with one handle a thread.
TEST(SpanBuilderTest, ARangeThatIsPoppedIsTheLastOneOfItsThread) {
  RecordMaker maker;
  const auto push = [&maker](uint32_t tid, int64_t ns, const char* name) {
    maker.AnnotationBegin(tid, ns, name);
    maker.AnnotationHandle(tid, ns, PT_RANGE_HANDLE(tid));
  };
  const auto pop = [&maker](uint32_t tid, int64_t ns) {
    maker.AnnotationEnd(tid, ns, PT_RANGE_HANDLE(tid));
  };
  push(1, 10, "outer");
  pop(2, 15);  // of nothing: it ends no other thread's
  push(1, 20, "inner");
  maker.AnnotationBegin(1, 30, "other");
  maker.AnnotationHandle(1, 31, 0x7f0000001000);
  maker.AnnotationEnd(1, 40, 0x7f0000001000);
  pop(1, 50);
  pop(1, 60);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("outer", "outer>inner", "outer>inner>other"));
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 50);
  EXPECT_EQ(timeline->span(SpanId{1}).duration_ns, 30);
  EXPECT_EQ(timeline->ledger().closed, 3u);
  EXPECT_EQ(timeline->ledger().unmatched_end, 1u);
}

TEST(SpanBuilderTest, ACollectionWithinACollectionIsNoRow) {
  CaptureMetadata metadata = TestMetadata();
  metadata.plans[1].sites[3] = {"Python GC", "", Category::kPythonFunction, Scope::kFunction,
                                SpanKind::kCollection};
  RecordMaker maker;
  maker.Begin(1, 10, 3, 0);
  maker.Begin(1, 20, 3, 1);  // asked for by what is collected
  maker.End(1, 21, 3, 1);
  maker.Begin(1, 30, 1, 1);
  maker.Begin(1, 31, 3, 2);
  maker.End(1, 32, 3, 2);
  maker.End(1, 40, 1, 1);
  maker.End(1, 50, 3, 0);
  maker.Begin(1, 60, 3, 0);
  maker.End(1, 70, 3, 0);
  const auto timeline = Build(maker, metadata);
  EXPECT_THAT(Paths(*timeline), ElementsAre("Python GC", "Python GC>aten::a", "Python GC"));
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 40);
  EXPECT_EQ(timeline->span(SpanId{0}).self_ns, 30);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

TEST(SpanBuilderTest, WhatTheCudaRuntimeDoesThroughTheDriverIsNoRow) {
  CaptureMetadata metadata = TestMetadata();
  metadata.plans[1].sites[2] = {"cudaMemcpyAsync", "", Category::kCudaRuntime, Scope::kFunction,
                                SpanKind::kRuntime};
  metadata.plans[1].sites[3] = {"cuMemcpyHtoDAsync_v2", "", Category::kCudaDriver, Scope::kFunction,
                                SpanKind::kRuntime};
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.SizedBegin(1, 20, 2, 1, 4096);
  maker.SizedBegin(1, 30, 3, 2, 4096);
  maker.End(1, 40, 3, 2);
  maker.End(1, 50, 2, 1);
  maker.SizedBegin(1, 60, 3, 1, 512);  // by the job itself
  maker.End(1, 70, 3, 1);
  maker.End(1, 80, 1, 0);
  const auto timeline = Build(maker, metadata);
  EXPECT_THAT(Paths(*timeline),
              ElementsAre("aten::a", "aten::a>cudaMemcpyAsync", "aten::a>cuMemcpyHtoDAsync_v2"));
  EXPECT_EQ(timeline->span(SpanId{1}).self_ns, 30);
  const SpanColumn<uint64_t>& bytes = timeline->columns().call_bytes;
  EXPECT_EQ(bytes.at(SpanId{0}), 0u);
  EXPECT_EQ(bytes.at(SpanId{1}), 4096u);
  EXPECT_EQ(bytes.at(SpanId{2}), 512u);
}

TEST(SpanBuilderTest, SameSiteRecursionClosesTheInnerFirst) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(1, 20, 1, 4);
  maker.End(1, 30, 1, 4);
  maker.End(1, 40, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 30);
  EXPECT_EQ(timeline->span(SpanId{1}).duration_ns, 10);
}

TEST(SpanBuilderTest, PathsOfRowsThatLieTooDeepAreCut) {
  constexpr uint32_t kDeep = kMostPathLevels + 3;
  RecordMaker maker;
  for (uint32_t i = 0; i < kDeep; ++i) maker.AnnotationBegin(1, 10 + i, "r" + std::to_string(i));
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), kDeep);
  const auto path = [&](uint32_t span) {
    return PathText(*timeline, timeline->span(SpanId{span}).path);
  };
  const std::string whole = path(kMostPathLevels - 1);
  EXPECT_TRUE(whole.ends_with("/r510/r511"));
  EXPECT_EQ(path(kMostPathLevels), whole + "/…/r512");
  EXPECT_EQ(path(kMostPathLevels + 2), whole + "/…/r514");
  EXPECT_EQ(timeline->span(SpanId{kDeep - 1}).depth, kDeep - 1);
  EXPECT_EQ(timeline->span(SpanId{kDeep - 1}).parent, SpanId{kDeep - 2});
  const std::vector<Unsupported>& said = timeline->info().unsupported;
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said.back().feature, "paths of more than 512 levels");
  EXPECT_TRUE(said.back().reason.starts_with("3 rows"));
}

}  // namespace
}  // namespace proftrace
