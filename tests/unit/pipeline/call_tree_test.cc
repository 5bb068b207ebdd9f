// The tree of rows that overlap, laid beside a second telling of torch's rules and of where each
// nanosecond of a thread belongs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/unit/pipeline/timeline.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/key_averages.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kThreads = 2;

// Operators that nest, and annotations that begin and end anywhere, on either thread.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {}

  void Run(RecordMaker* maker, int steps) {
    for (int i = 0; i < steps; ++i) {
      const uint32_t tid = 1 + Pick(kThreads);
      std::vector<uint16_t>& calls = calls_[tid - 1];
      ns_ += 1 + Pick(5);
      switch (Pick(8)) {
        case 0:
        case 1:
        case 2:
          if (calls.size() >= 6) break;
          calls.push_back(static_cast<uint16_t>(1 + Pick(3)));
          maker->Begin(tid, ns_, calls.back(), static_cast<uint32_t>(calls.size()));
          break;
        case 3:
        case 4:
          if (!calls.empty()) EndCall(maker, tid);
          break;
        case 5:
          if (annotations_.size() < 8) BeginAnnotation(maker, tid);
          break;
        case 6:
          if (!annotations_.empty()) EndAnnotation(maker, tid, Pick(annotations_.size()));
          break;
        default:
          maker->Allocation(tid, ns_, 0x1000 * ++blocks_, 1 + Pick(1000));
      }
    }
    for (uint32_t tid = 1; tid <= kThreads; ++tid) {
      while (!calls_[tid - 1].empty()) EndCall(maker, tid);
    }
    while (!annotations_.empty()) EndAnnotation(maker, 1, 0);
  }

 private:
  uint32_t Pick(size_t below) { return static_cast<uint32_t>(random_() % below); }

  void EndCall(RecordMaker* maker, uint32_t tid) {
    std::vector<uint16_t>& calls = calls_[tid - 1];
    maker->End(tid, ++ns_, calls.back(), static_cast<uint32_t>(calls.size()));
    calls.pop_back();
  }
  void BeginAnnotation(RecordMaker* maker, uint32_t tid) {
    maker->AnnotationBegin(tid, ns_, "block " + std::to_string(Pick(3)));
    annotations_.push_back(0x10 * ++handles_);
    maker->AnnotationHandle(tid, ++ns_, annotations_.back());
  }
  void EndAnnotation(RecordMaker* maker, uint32_t tid, uint32_t which) {
    maker->AnnotationEnd(tid, ++ns_, annotations_[which]);
    annotations_.erase(annotations_.begin() + which);
  }

  std::mt19937 random_;
  int64_t ns_ = 100;
  uint64_t handles_ = 0;
  uint64_t blocks_ = 0;
  std::vector<uint16_t> calls_[kThreads];
  std::vector<uint64_t> annotations_;
};

// As torch/autograd/profiler_util.py tells it: a row's parent is the nearest row begun before, on
// its thread and not asynchronous, of those that all lie in each other, that ends no sooner.
std::vector<int> TorchParents(const Timeline& timeline) {
  std::vector<int> parents;
  std::map<uint32_t, std::vector<int>> current;
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    const Span& span = timeline.span(SpanId{i});
    parents.push_back(-1);
    if (span.is_async) continue;
    std::vector<int>& stack = current[Raw(span.thread)];
    while (!stack.empty()) {
      const Span& above = timeline.span(SpanId{static_cast<uint32_t>(stack.back())});
      if (span.start_ns < above.end_ns() && span.end_ns() <= above.end_ns()) break;
      stack.pop_back();
    }
    if (!stack.empty()) parents.back() = stack.back();
    stack.push_back(static_cast<int>(i));
  }
  return parents;
}

// By row, each nanosecond of a thread to the row that began last of those that are open.
std::vector<int64_t> TimesAlone(const Timeline& timeline) {
  std::vector<int64_t> alone(timeline.span_count());
  for (uint32_t thread = 0; thread < timeline.threads().size(); ++thread) {
    std::map<int64_t, uint32_t> owners;  // by nanosecond
    for (uint32_t i = 0; i < timeline.span_count(); ++i) {
      const Span& span = timeline.span(SpanId{i});
      if (Raw(span.thread) != thread || span.is_async) continue;
      for (int64_t ns = span.start_ns; ns < span.end_ns(); ++ns) owners[ns] = i;
    }
    for (const auto& [ns, owner] : owners) ++alone[owner];
  }
  return alone;
}

TEST(CallTreeTest, IsTorchsAndOwnTimesAddUp) {
  int moved = 0;
  int async = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    RecordMaker maker;
    RandomProgram(seed).Run(&maker, 80);
    const auto timeline = Build(maker);
    const std::vector<int> parents = TorchParents(*timeline);
    const std::vector<int64_t> alone = TimesAlone(*timeline);
    std::vector<int64_t> own_ns(timeline->span_count());
    std::vector<int64_t> own_bytes(timeline->span_count());
    int64_t roots_ns = 0;
    int64_t self_ns = 0;
    for (uint32_t i = 0; i < timeline->span_count(); ++i) {
      const Span& span = timeline->span(SpanId{i});
      ASSERT_EQ(span.end, SpanEnd::kReturn);
      const int parent = span.parent == kNoSpan ? -1 : static_cast<int>(Raw(span.parent));
      ASSERT_EQ(parent, parents[i]) << i << " " << NameOf(*timeline, i);
      ASSERT_EQ(span.depth, parent < 0 ? 0 : timeline->span(span.parent).depth + 1);
      ASSERT_EQ(timeline->path(span.path).parent,
                parent < 0 ? kRootPath : timeline->span(span.parent).path);
      moved += span.overlaps ? 1 : 0;
      async += span.is_async ? 1 : 0;
      self_ns += span.self_ns;
      if (span.is_async) {
        ASSERT_EQ(span.self_ns, 0);
        continue;
      }
      const int64_t bytes = timeline->columns().memory.at(SpanId{i}).cpu_bytes;
      own_ns[i] += span.duration_ns;
      own_bytes[i] += bytes;
      if (parent < 0) {
        roots_ns += span.duration_ns;
      } else {
        own_ns[static_cast<size_t>(parent)] -= span.duration_ns;
        own_bytes[static_cast<size_t>(parent)] -= bytes;
      }
    }
    ASSERT_EQ(self_ns, roots_ns);
    int64_t thread_ns = 0;
    std::vector<int64_t> event_bytes(timeline->span_count());
    for (uint32_t i = 0; i < timeline->memory_events().size(); ++i) {
      const MemoryEvent& event = timeline->memory_events().at(i);
      if (event.parent != kNoSpan) event_bytes[Raw(event.parent)] += event.bytes;
      if (event.parent == kNoSpan) continue;
      const Span& around = timeline->span(event.parent);
      ASSERT_LE(around.start_ns, event.time_ns);
      ASSERT_GE(around.end_ns(), event.time_ns);
      ASSERT_FALSE(around.is_async);
    }
    for (uint32_t i = 0; i < timeline->span_count(); ++i) {
      const Span& span = timeline->span(SpanId{i});
      thread_ns += alone[i];
      ASSERT_EQ(span.self_ns, own_ns[i]) << i;
      if (span.is_async) continue;
      ASSERT_EQ(span.self_ns - timeline->columns().shared_ns.at(SpanId{i}), alone[i]) << i;
      ASSERT_EQ(timeline->columns().memory.at(SpanId{i}).self_cpu_bytes, own_bytes[i]) << i;
    }
    // Outputs: torch's table has what rows share in each of them, stacks have each moment once.
    const KeyAverages averages = BuildKeyAverages(*timeline, {});
    EXPECT_EQ(averages.self_cpu_time_total_ns, roots_ns);
    FoldedStacks stacks;
    SpanCounts counts;
    BuildFoldedStacks(*timeline, &stacks, &counts);
    EXPECT_EQ(stacks.Find(StackWeight::kSelfCpuTime)->total, thread_ns);
  }
  EXPECT_GT(moved, 500);
  EXPECT_GT(async, 500);
}

// record_function inside of a mode that runs Python: it begins in the mode's row and outlives it.
TEST(CallTreeTest, AnAnnotationThatOutlivesWhatItBeganInHasWhatFollows) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 5);
  maker.AnnotationBegin(1, 11, "block");
  maker.AnnotationHandle(1, 12, 0x20);
  maker.End(1, 13, 1, 5);
  maker.Begin(1, 20, 2, 5);
  maker.Allocation(1, 25, 0x9000, 64);
  maker.End(1, 30, 2, 5);
  maker.Allocation(1, 35, 0xa000, 32);
  maker.AnnotationEnd(1, 40, 0x20);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "block", "block>aten::b"));
  EXPECT_EQ(timeline->span(SpanId{1}).self_ns, 29 - 10);
  EXPECT_EQ(timeline->memory_events().at(0).parent, SpanId{2});
  EXPECT_EQ(timeline->memory_events().at(1).parent, SpanId{1});
}

// Nothing lies in a row that ends on another thread, and it is part of nothing.
TEST(CallTreeTest, WhatBeginsInAnAsynchronousRowLiesInWhatIsAroundThat) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 5);
  maker.AnnotationBegin(1, 20, "request");
  maker.AnnotationHandle(1, 21, 0x20);
  maker.Begin(1, 30, 2, 6);
  maker.End(1, 40, 2, 6);
  maker.End(1, 50, 1, 5);
  maker.AnnotationEnd(2, 60, 0x20);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "request", "aten::a>aten::b"));
  EXPECT_EQ(timeline->span(SpanId{0}).self_ns, 30);
  EXPECT_EQ(timeline->span(SpanId{1}).self_ns, 0);
  EXPECT_EQ(timeline->began_in(SpanId{1}), SpanId{0});
}

// c10d's works are asynchronous wherever they end; captures of before that was told have their
// names.
TEST(CallTreeTest, WorksAreAsynchronousOnOneThreadToo) {
  for (const bool is_marked : {false, true}) {
    CaptureMetadata metadata = TestMetadata();
    Label work;
    work.is_async = true;
    metadata.plans[1].sites.resize(9);
    if (is_marked) metadata.plans[1].sites.push_back(work);
    RecordMaker maker;
    maker.Begin(1, 10, 1, 5);
    maker.Guard(abi::PT_GUARD_BEGIN, 1, 20, 6, 0x500, 0, static_cast<uint32_t>(Scope::kUserScope),
                is_marked ? "mine:all_reduce" : "nccl:all_reduce", 0, is_marked ? 9 : 0);
    maker.Begin(1, 30, 2, 7);
    maker.End(1, 40, 2, 7);
    maker.GuardEnd(1, 50, 6, 0x500);
    maker.End(1, 60, 1, 5);
    const auto timeline = Build(maker, metadata);
    EXPECT_TRUE(timeline->span(SpanId{1}).is_async);
    EXPECT_FALSE(timeline->span(SpanId{1}).ended_elsewhere);
    EXPECT_EQ(timeline->span(SpanId{1}).self_ns, 0);
    EXPECT_EQ(timeline->span(SpanId{2}).parent, SpanId{0});
    EXPECT_EQ(timeline->span(SpanId{0}).self_ns, 40);
  }
}

}  // namespace
}  // namespace proftrace
