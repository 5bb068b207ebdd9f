// Rows that are open when their thread ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "tests/support/sample_record_maker.h"
#include "tests/support/system_record_maker.h"
#include "tests/unit/pipeline/timeline.h"
#include "userspace/merge/span_builder.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;

void Annotate(RecordMaker& maker, uint32_t tid, int64_t ns, const std::string& name,
              uint64_t handle) {
  maker.AnnotationBegin(tid, ns, name);
  maker.AnnotationHandle(tid, ns + 1, handle);
}

TEST(ThreadEndTest, AnAnnotationMayOutliveItsThread) {
  RecordMaker maker;
  Annotate(maker, 1, 10, "handed over", 0x100);
  maker.Begin(1, 20, 1, 1);
  maker.End(1, 30, 1, 1);
  maker.ThreadExit(1, 40, false);
  maker.Begin(1, 50, 2, 1);  // another thread of the same number
  maker.End(1, 60, 2, 1);
  maker.AnnotationEnd(2, 70, 0x100);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("handed over", "aten::a", "aten::b"));
  const Span& row = timeline->span(SpanId{0});
  EXPECT_EQ(row.end, SpanEnd::kReturn);
  EXPECT_EQ(row.end_ns(), 70);
  EXPECT_EQ(row.self_ns, 0);
  EXPECT_TRUE(row.is_async);
  EXPECT_EQ(timeline->ledger().closed, 3u);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

TEST(ThreadEndTest, AThreadOfTheSameNumberMayEndIt) {
  RecordMaker maker;
  Annotate(maker, 1, 10, "handed over", 0x100);
  maker.ThreadExit(1, 40, false);
  maker.AnnotationEnd(1, 70, 0x100);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).end_ns(), 70);
  EXPECT_TRUE(timeline->span(SpanId{0}).is_async);
}

TEST(ThreadEndTest, AFutureEndsItByItsGuard) {
  RecordMaker maker;
  maker.AnnotationBegin(1, 10, "future outlives");
  maker.AnnotationGuard(1, 11, 0x900);
  maker.AnnotationHandle(1, 12, 0x100);
  maker.Guard(abi::PT_GUARD_BEGIN, 1, 20, 1, 0xa00, 0, 0, "collective");
  maker.Guard(abi::PT_FRAME_BEGIN, 1, 30, 2, 0x700, 0x70, 2, "scripted");
  maker.ThreadExit(1, 40, false);
  maker.GuardEnd(2, 50, 0, 0x900);
  maker.GuardEnd(2, 60, 0, 0xa00);
  maker.FrameEnd(2, 70, 0, 0x700, 0x70);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).end_ns(), 50);
  EXPECT_EQ(timeline->span(SpanId{1}).end_ns(), 60);
  EXPECT_EQ(timeline->span(SpanId{2}).end_ns(), 70);
  EXPECT_EQ(timeline->ledger().closed, 3u);
}

TEST(ThreadEndTest, WhatNobodyEndsIsTruncatedWhereItsThreadEnded) {
  for (const bool process_ends : {false, true}) {
    RecordMaker maker;
    maker.Begin(1, 5, 1, 1);
    Annotate(maker, 1, 10, "outer", 0x100);
    Annotate(maker, 1, 20, "inner", 0x200);
    maker.ThreadExit(1, 40, false);
    maker.Begin(2, 50, 2, 1);
    maker.End(2, 60, 2, 1);
    if (process_ends) {
      maker.ThreadExit(2, 70, true);
      maker.AnnotationEnd(2, 80, 0x100);  // of another process
    }
    const auto timeline = Build(maker);
    EXPECT_THAT(Paths(*timeline),
                ElementsAre("aten::a", "aten::a>outer", "aten::a>outer>inner", "aten::b"));
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(timeline->span(SpanId{i}).end, SpanEnd::kTruncated);
      EXPECT_EQ(timeline->span(SpanId{i}).end_ns(), 40);
      EXPECT_FALSE(timeline->span(SpanId{i}).is_async);
    }
    EXPECT_EQ(timeline->span(SpanId{0}).self_ns, 5);
    EXPECT_EQ(timeline->span(SpanId{1}).self_ns, 10);
    EXPECT_EQ(timeline->ledger().truncated, 3u);
    EXPECT_EQ(timeline->ledger().partial_overlap, 0u);
    EXPECT_EQ(timeline->ledger().unmatched_end, process_ends ? 1u : 0u);
  }
}

TEST(ThreadEndTest, AnnotationsOfOneThreadEndInAnyOrder) {
  RecordMaker maker;
  Annotate(maker, 1, 10, "outer", 0x100);
  Annotate(maker, 1, 20, "inner", 0x200);
  maker.ThreadExit(1, 40, false);
  maker.AnnotationEnd(2, 50, 0x100);
  maker.AnnotationEnd(2, 60, 0x200);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).end_ns(), 50);
  EXPECT_EQ(timeline->span(SpanId{1}).end_ns(), 60);
}

TEST(ThreadEndTest, AnAddressThatIsUsedAgainIsNoLongerTheOldOnes) {
  RecordMaker maker;
  Annotate(maker, 1, 10, "leaked", 0x100);
  maker.AnnotationGuard(1, 12, 0x900);
  maker.ThreadExit(1, 40, false);
  Annotate(maker, 2, 50, "later", 0x100);
  maker.AnnotationGuard(2, 52, 0x900);
  maker.AnnotationEnd(3, 60, 0x100);
  maker.AnnotationEnd(3, 70, 0x100);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kTruncated);
  EXPECT_EQ(timeline->span(SpanId{0}).end_ns(), 40);
  EXPECT_EQ(timeline->span(SpanId{1}).end_ns(), 60);
  EXPECT_EQ(timeline->ledger().unmatched_end, 1u);
}

TEST(ThreadEndTest, RangesEndWithTheirThread) {
  RecordMaker maker;
  Annotate(maker, 1, 10, "pushed", PT_RANGE_HANDLE(1));
  maker.ThreadExit(1, 40, false);
  maker.AnnotationEnd(1, 50, PT_RANGE_HANDLE(1));  // by the next thread of that number
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kTruncated);
  EXPECT_EQ(timeline->ledger().unmatched_end, 1u);
}

TEST(ThreadEndTest, AGapTruncatesWhatHasOutlivedItsThread) {
  RecordMaker before;
  Annotate(before, 1, 10, "handed over", 0x100);
  before.ThreadExit(1, 40, false);
  before.Begin(2, 45, 1, 1);
  RecordMaker after;
  after.AnnotationEnd(2, 50, 0x100);
  VectorSource source;
  source.Add(before.bytes());
  source.Add(after.bytes(), /*gap_before=*/true);
  const auto timeline = Build(TestMetadata(), std::move(source));
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kTruncated);
  EXPECT_EQ(timeline->span(SpanId{0}).end_ns(), 40);
  EXPECT_EQ(timeline->ledger().unmatched_end, 1u);
}

TEST(ThreadEndTest, ItHasTheMemoryOfItsThreadAlone) {
  constexpr uint64_t kBlock = 0x7f0000001000;
  CaptureMetadata metadata = TestMetadata();
  metadata.processes[0].target.memory_recorded = true;
  RecordMaker maker;
  maker.Allocation(1, 5, kBlock, 7);
  Annotate(maker, 1, 10, "handed over", 0x100);
  maker.Allocation(1, 20, kBlock + 64, 100);
  maker.ThreadExit(1, 40, false);
  maker.Allocation(1, 50, kBlock + 128, 1000);
  maker.AnnotationEnd(2, 60, 0x100);
  const auto timeline = Build(maker, metadata);
  EXPECT_EQ(timeline->columns().memory.at(SpanId{0}), (SpanMemory{100, 0, 0, 0}));
}

TEST(ThreadEndTest, OfTooManyTheOldestAreTruncated) {
  constexpr auto kCount = static_cast<uint32_t>(SpanBuilder::kMostOutliving + 1);
  RecordMaker maker;
  for (uint32_t i = 1; i <= kCount; ++i) {
    Annotate(maker, i, 10 * i, "leaked", 0x100 * i);
    maker.ThreadExit(i, 10 * i + 5, false);
  }
  maker.AnnotationEnd(1, 10 * kCount + 10, 0x100);
  maker.AnnotationEnd(1, 10 * kCount + 20, 0x100 * (kCount / 2 + 2));
  maker.AnnotationEnd(1, 10 * kCount + 30, 0x100 * kCount);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->ledger().closed, 2u);
  EXPECT_EQ(timeline->ledger().unmatched_end, 1u);
  EXPECT_EQ(timeline->ledger().truncated, kCount - 2);
  EXPECT_EQ(timeline->span(SpanId{0}).end_ns(), 15);
}

TEST(ThreadEndTest, ANewThreadOfTheSameNumberIsNotInIt) {
  CaptureMetadata metadata = TestMetadata();
  metadata.info.system = SystemActivities::FromText("cpu,syscalls");
  metadata.info.window.duration_ns = 1'000'000;
  metadata.has_end = true;
  SystemRecordMaker job;
  Annotate(job, kTid, 1000, "handed over", 0x100);
  job.SystemCall(kTid, 1100, 1200);
  job.ThreadExit(kTid, 2000, false);
  job.Begin(kTid, 3000, 1, 1);
  job.End(kTid, 4000, 1, 1);
  job.SystemCall(kTid, 4100, 4200);
  job.AnnotationEnd(2, 5000, 0x100);
  const auto timeline = Build(job, metadata);
  ASSERT_EQ(timeline->system_event_count(), 2u);
  EXPECT_EQ(timeline->system_event(0).span, kNoSpan) << "nothing lies in an asynchronous row";
  EXPECT_EQ(timeline->system_event(1).span, kNoSpan);
}

TEST(ThreadEndTest, SamplesOfANewThreadOfTheSameNumberAreNotInIt) {
  SampleRecordMaker job;
  job.Function(1, abi::PT_SAMPLE_FRAME_PYTHON, "main", "/job/train.py", 3);
  job.Frame(1, 0, 1, 12);
  Annotate(job, kTid, 1000, "handed over", 0x100);
  job.Sample(kTid, 1500, 1);
  job.ThreadExit(kTid, 2000, false);
  job.Begin(kTid, 3000, 1, 1);
  job.End(kTid, 4000, 1, 1);
  job.Sample(kTid, 4500, 1);
  job.AnnotationEnd(2, 5000, 0x100);
  const auto timeline = Build(job);
  ASSERT_EQ(timeline->samples().size(), 2u);
  EXPECT_EQ(timeline->samples()[0].span, kNoSpan) << "nothing lies in an asynchronous row";
  EXPECT_EQ(timeline->samples()[1].span, kNoSpan);
}

}  // namespace
}  // namespace proftrace
