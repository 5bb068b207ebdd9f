#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/pipeline/timeline.h"
#include "userspace/merge/memory_tracker.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kBlock = 0x7fff12345678;  // more than 32 bits
constexpr uint64_t kOther = 0x7fff00000040;
constexpr uint8_t kCuda = 1;

std::vector<int64_t> Bytes(const Timeline& timeline) {
  std::vector<int64_t> bytes;
  for (uint32_t i = 0; i < timeline.memory_events().size(); ++i) {
    bytes.push_back(timeline.memory_events().at(i).bytes);
  }
  return bytes;
}

std::vector<int64_t> Totals(const Timeline& timeline) {
  std::vector<int64_t> totals;
  for (uint32_t i = 0; i < timeline.memory_events().size(); ++i) {
    const MemoryEvent& event = timeline.memory_events().at(i);
    totals.push_back(event.total_known ? event.total_allocated : -1);
  }
  return totals;
}

SpanMemory MemoryOf(const Timeline& timeline, uint32_t span) {
  return timeline.columns().memory.at(SpanId{span});
}

TEST(MemoryTest, BelongsToTheInnermostSpanOfItsThread) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(1, 20, 2, 1);
  maker.Allocation(1, 25, kBlock, 100);
  maker.Allocation(2, 26, kOther, 7);  // another thread: not in the span that is open here
  maker.End(1, 30, 2, 1);
  maker.Allocation(1, 35, 0x1000, 10);
  maker.Free(1, 36, kBlock);
  maker.End(1, 40, 1, 0);
  maker.Free(1, 50, 0x1000);
  const auto timeline = Build(maker);
  EXPECT_THAT(Bytes(*timeline), ElementsAre(100, 7, 10, -100, -10));
  EXPECT_THAT(Totals(*timeline), ElementsAre(100, 107, 117, 17, 7));
  EXPECT_EQ(MemoryOf(*timeline, 0), (SpanMemory{10, -90, 0, 0}));
  EXPECT_EQ(MemoryOf(*timeline, 1), (SpanMemory{100, 100, 0, 0}));
  const MemoryEventStore& events = timeline->memory_events();
  EXPECT_EQ(events.at(0).parent, SpanId{1});
  EXPECT_EQ(events.at(0).address, kBlock);
  EXPECT_EQ(events.at(0).device_index, -1);
  EXPECT_EQ(events.at(1).parent, kNoSpan);
  EXPECT_EQ(Raw(timeline->thread(events.at(1).thread).tid), 2u);
  EXPECT_EQ(events.at(3).parent, SpanId{0});
  EXPECT_EQ(events.at(4).parent, kNoSpan);
}

TEST(MemoryTest, EmptyBlocksAndBlocksFromBeforeAreCountedOnly) {
  RecordMaker maker;
  maker.Allocation(1, 10, 0, 0);
  maker.Free(1, 11, 0);
  maker.Free(1, 12, kBlock);
  maker.Allocation(1, 13, kBlock, 5);
  maker.Free(1, 14, kBlock);
  maker.Free(1, 15, kBlock);
  const auto timeline = Build(maker);
  EXPECT_THAT(Bytes(*timeline), ElementsAre(5, -5));
  EXPECT_EQ(timeline->memory_summary().empty_blocks, 1u);
  EXPECT_EQ(timeline->memory_summary().unknown_frees, 2u);
  EXPECT_EQ(timeline->memory_summary().inconsistent_processes, 0u);
}

TEST(MemoryTest, ALossMakesTotalsUnknownFromThereOn) {
  RecordMaker maker;
  maker.Allocation(1, 10, kBlock, 100);
  maker.Allocation(2, 15, kOther, 7);
  maker.Loss(2, 20, 3);
  maker.Allocation(1, 25, 0x1000, 5);
  maker.Free(1, 30, 0x1000);
  const auto timeline = Build(maker);
  EXPECT_THAT(Bytes(*timeline), ElementsAre(100, 7, 5, -5));
  EXPECT_THAT(Totals(*timeline), ElementsAre(100, 107, -1, -1));
  EXPECT_EQ(timeline->memory_summary().inconsistent_processes, 1u);
}

TEST(MemoryTest, ABlockFromBeforeALossMayBeAnotherOne) {
  RecordMaker maker;
  maker.Allocation(1, 10, kBlock, 100);
  maker.Loss(2, 20, 3);  // say its free, and an allocation of 8 bytes in its place
  maker.Free(1, 30, kBlock);
  const auto timeline = Build(maker);
  EXPECT_THAT(Bytes(*timeline), ElementsAre(100));
  EXPECT_EQ(timeline->memory_summary().unknown_frees, 1u);
}

TEST(MemoryTest, TotalsSinceTheLastRecordOfTheThreadThatLostAreUnknown) {
  RecordMaker maker;
  maker.Allocation(1, 10, kBlock, 100);
  maker.Allocation(2, 15, kOther, 7);
  maker.Allocation(1, 20, 0x1000, 5);  // thread 2 may have lost its records before this
  maker.Loss(2, 30, 1);
  const auto timeline = Build(maker);
  EXPECT_THAT(Totals(*timeline), ElementsAre(100, 107, -1));
}

TEST(MemoryTest, AGapMakesTotalsUnknownOfLaterProcessesToo) {
  RecordMaker before;
  before.Begin(1, 10, 1, 0);
  RecordMaker after;
  after.Allocation(1, 20, kBlock, 1);
  VectorSource source;
  source.Add(before.bytes());
  source.Add(after.bytes(), /*gap_before=*/true);
  const auto timeline = Build(TestMetadata(), std::move(source));
  EXPECT_THAT(Totals(*timeline), ElementsAre(-1));
}

TEST(MemoryTest, AForkedChildBeginsAnewAndItsParentsBlocksAreNotIts) {
  RecordMaker parent;
  parent.Allocation(1, 10, kBlock, 100);
  RecordMaker child(RecordMaker::kPid + 1);
  child.Allocation(5, 20, kOther, 8);
  child.Free(5, 30, kBlock);
  child.Free(5, 40, kOther);
  RecordMaker after;
  after.Free(1, 50, kBlock);
  VectorSource source;
  source.Add(parent.bytes());
  source.Add(child.bytes());
  source.Add(after.bytes());
  const auto timeline = Build(TestMetadata(), std::move(source));
  EXPECT_THAT(Bytes(*timeline), ElementsAre(100, 8, -8, -100));
  EXPECT_THAT(Totals(*timeline), ElementsAre(100, 8, 0, 0));
  EXPECT_EQ(timeline->memory_summary().unknown_frees, 1u);
}

TEST(MemoryTest, AnAddressThatIsLiveAlreadyMakesTotalsUnknown) {
  RecordMaker maker;
  maker.Allocation(1, 10, kBlock, 100);
  maker.Allocation(1, 20, kBlock, 50);
  maker.Free(1, 30, kBlock);
  const auto timeline = Build(maker);
  EXPECT_THAT(Bytes(*timeline), ElementsAre(100, 50, -50));
  EXPECT_THAT(Totals(*timeline), ElementsAre(100, -1, -1));
  EXPECT_EQ(timeline->memory_summary().reused_blocks, 1u);
}

TEST(MemoryTest, DeviceMemoryHasItsAllocatorsTotals) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Memory(abi::PT_DEVICE_MEMORY, 1, 20, kCuda, 3, kBlock, 512, 1024, 4096);
  maker.Memory(abi::PT_DEVICE_MEMORY, 1, 30, kCuda, 3, kBlock, -512, 512, 4096);
  maker.Memory(abi::PT_DEVICE_MEMORY, 1, 31, kCuda, 3, kOther, 8, 520, 4096);
  maker.Memory(abi::PT_OUT_OF_MEMORY, 1, 35, kCuda, 3, 0, 1 << 30, 520, 4096);
  maker.End(1, 40, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_THAT(Bytes(*timeline), ElementsAre(512, -512, 8, 1 << 30));
  EXPECT_THAT(Totals(*timeline), ElementsAre(1024, 512, 520, 520));
  EXPECT_EQ(MemoryOf(*timeline, 0), (SpanMemory{0, 0, 8, 8}));
  const MemoryEvent& event = timeline->memory_events().at(0);
  EXPECT_EQ(event.device_type, kCuda);
  EXPECT_EQ(event.device_index, 3);
  EXPECT_EQ(event.total_reserved, 4096);
  EXPECT_EQ(timeline->memory_events().at(3).kind, MemoryEventKind::kOutOfMemory);
}

// torch reports an allocation to its own profiler after New(), and a free after Delete(); shared
// memory it reports there alone.
TEST(MemoryTest, WhatTorchReportsTwiceCountsOnce) {
  RecordMaker maker;
  maker.Allocation(1, 10, kBlock, 100);
  maker.Memory(abi::PT_DEVICE_MEMORY, 1, 11, 0, -1, kBlock, 100, 100, 0);
  maker.Memory(abi::PT_DEVICE_MEMORY, 1, 12, 0, -1, kOther, 24, 0, 24);
  maker.Free(1, 13, kBlock);
  maker.Memory(abi::PT_DEVICE_MEMORY, 1, 14, 0, -1, kBlock, -100, 0, 0);
  maker.Memory(abi::PT_DEVICE_MEMORY, 1, 15, 0, -1, kOther, -24, 0, 0);
  const auto timeline = Build(maker);
  EXPECT_THAT(Bytes(*timeline), ElementsAre(100, 24, -100, -24));
}

TEST(MemoryTest, OutsideTheWindowIsNotRecorded) {
  CaptureMetadata metadata = TestMetadata();
  metadata.info.window.start_ns = 20;
  metadata.info.window.duration_ns = 20;
  metadata.has_end = true;
  RecordMaker maker;
  maker.Allocation(1, 10, kBlock, 100);
  maker.Allocation(1, 25, kOther, 5);
  maker.Free(1, 30, kBlock);
  maker.Free(1, 50, kOther);
  const auto timeline = Build(maker, metadata);
  EXPECT_THAT(Bytes(*timeline), ElementsAre(5));
  EXPECT_EQ(timeline->memory_summary().unknown_frees, 1u);
}

TEST(MemoryTest, AProcessThatRunsAnotherProgramBeginsAnew) {
  RecordMaker maker;
  maker.Allocation(1, 10, kBlock, 100);
  maker.Exec(1, 20);
  maker.Allocation(1, 30, kBlock, 5);
  const auto timeline = Build(maker);
  EXPECT_THAT(Totals(*timeline), ElementsAre(100, 5));
}

TEST(MemoryTest, AnAsyncSpanIsNoPartOfItsParentsChildren) {
  RecordMaker maker;
  maker.AnnotationBegin(1, 10, "outer");
  maker.AnnotationHandle(1, 11, 1);
  maker.AnnotationBegin(1, 20, "inner");
  maker.AnnotationHandle(1, 21, 2);
  maker.Allocation(1, 25, kBlock, 100);
  maker.AnnotationEnd(2, 30, 2);  // ends on another thread
  maker.AnnotationEnd(1, 40, 1);
  const auto timeline = Build(maker);
  EXPECT_EQ(MemoryOf(*timeline, 0), (SpanMemory{100, 100, 0, 0}));
  EXPECT_EQ(MemoryOf(*timeline, 1), (SpanMemory{100, 0, 0, 0}));
}

TEST(MemoryTest, WhatLiesInARowThatHasOutlivedItsParentIsInside) {
  RecordMaker maker;
  maker.AnnotationBegin(1, 10, "first");
  maker.AnnotationHandle(1, 11, 1);
  maker.AnnotationBegin(1, 20, "second");
  maker.AnnotationHandle(1, 21, 2);
  maker.AnnotationEnd(1, 30, 1);
  maker.Allocation(1, 35, kBlock, 100);
  maker.AnnotationEnd(1, 40, 2);
  maker.Allocation(1, 45, kOther, 7);
  const auto timeline = Build(maker);
  const MemoryEventStore& events = timeline->memory_events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events.at(0).parent, SpanId{1});
  EXPECT_TRUE(events.at(0).is_inside);
  EXPECT_FALSE(events.at(1).is_inside);
}

TEST(MemoryTest, ImpossibleSizesDoNotOverflow) {
  RecordMaker maker;
  maker.Begin(1, 5, 1, 0);
  for (int i = 0; i < 300; ++i) {
    maker.Memory(
        abi::PT_DEVICE_MEMORY, 1, 10 + i, kCuda, 0, kBlock,
        i < 150 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min(),
        ~uint64_t{0}, ~uint64_t{0});
  }
  maker.Allocation(1, 400, kBlock, ~uint64_t{0});
  maker.End(1, 500, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->memory_summary().untracked, 1u);
  EXPECT_EQ(timeline->memory_events().size(), 300u);
  EXPECT_EQ(timeline->memory_events().at(0).total_allocated, std::numeric_limits<int64_t>::max());
}

TEST(MemoryTrackerTest, TheTableOfLiveBlocksIsBounded) {
  MemoryTracker tracker(/*most_blocks=*/2);
  Event event;
  event.type = EventType::kAllocation;
  event.value = 10;
  for (uint64_t address = 1; address <= 3; ++address) {
    event.object = address;
    const auto memory = tracker.Observe(event);
    ASSERT_TRUE(memory.has_value());
    EXPECT_EQ(memory->total_known, address < 3);
  }
  EXPECT_EQ(tracker.summary().untracked, 1u);
  event.type = EventType::kFree;
  EXPECT_FALSE(tracker.Observe(event).has_value());
  event.object = 1;
  EXPECT_TRUE(tracker.Observe(event).has_value());
}

}  // namespace
}  // namespace proftrace
