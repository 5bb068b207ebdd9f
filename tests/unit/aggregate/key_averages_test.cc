#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"

namespace proftrace {
namespace {

class KeyAveragesTest : public testing::Test {
 protected:
  KeyAverages Build(const KeyAveragesOptions& options = {}) {
    timeline_ = maker_.Finish();
    return BuildKeyAverages(*timeline_, options);
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(1, 1, "python3");
  std::unique_ptr<Timeline> timeline_;
};

// Figures of torch's EventList (2.11), told the same times.
TEST_F(KeyAveragesTest, SelfTimesOfAnnotationsThatOverlap) {
  const SpanId a = maker_.Begin(thread_, maker_.AddAnnotation("a"), 0);
  const SpanId b = maker_.Begin(thread_, maker_.AddAnnotation("b"), 10);
  const SpanId c = maker_.Begin(thread_, maker_.AddAnnotation("c"), 20);
  maker_.Add(thread_, maker_.AddOperator("aten::r1"), 25, 28);
  maker_.EndOuter(thread_, b, 30);
  maker_.Add(thread_, maker_.AddOperator("aten::r2"), 40, 50);
  maker_.Begin(thread_, maker_.AddAnnotation("d"), 55);
  maker_.Add(thread_, maker_.AddOperator("aten::r3"), 57, 59);
  maker_.EndOuter(thread_, c, 60);
  maker_.Add(thread_, maker_.AddOperator("aten::r4"), 65, 66);
  maker_.End(thread_, 70);
  maker_.EndOuter(thread_, a, 100);
  const KeyAverages averages = Build();
  std::map<std::string, int64_t> self_ns;
  for (const KeyAverage& row : averages.rows) self_ns[row.name] = row.self_cpu_time_total_ns;
  EXPECT_EQ(self_ns, (std::map<std::string, int64_t>{{"a", 25},
                                                     {"b", 20},
                                                     {"c", 27},
                                                     {"d", 12},
                                                     {"aten::r1", 3},
                                                     {"aten::r2", 10},
                                                     {"aten::r3", 2},
                                                     {"aten::r4", 1}}));
}

// torch's EventList (2.11) gives these figures, too.
TEST_F(KeyAveragesTest, WhatAnOverlappingAnnotationEnclosesIsNotCountedTwice) {
  const SpanId outer = maker_.Begin(thread_, maker_.AddAnnotation("outer"), 0);
  const SpanId inner = maker_.Begin(thread_, maker_.AddAnnotation("inner"), 10);
  maker_.EndOuter(thread_, outer, 20);
  const SpanId mm = maker_.Add(thread_, maker_.AddOperator("aten::mm"), 30, 80);
  maker_.End(thread_, 90);
  for (const SpanId span : {inner, mm}) {
    ASSERT_TRUE(maker_.SetMemory(span, {.cpu_bytes = 640, .self_cpu_bytes = 640}).ok());
  }
  const KeyAverages averages = Build();
  ASSERT_EQ(timeline_->span(mm).parent, inner);
  ASSERT_EQ(averages.rows.size(), 3u);
  EXPECT_EQ(averages.rows[0].self_cpu_time_total_ns, 20);
  EXPECT_EQ(averages.rows[1].name, "inner");
  EXPECT_EQ(averages.rows[1].self_cpu_time_total_ns, 30);
  EXPECT_EQ(averages.rows[1].memory.self_cpu_bytes, 0);
  EXPECT_EQ(averages.rows[2].self_cpu_time_total_ns, 50);
  EXPECT_EQ(averages.rows[2].memory.self_cpu_bytes, 640);
  EXPECT_EQ(averages.self_cpu_time_total_ns, 100);
}

TEST_F(KeyAveragesTest, OnlyChildInTorchsTreeAloneIsFolded) {
  const LabelId again = maker_.AddAnnotation("again");
  const SpanId outer = maker_.Begin(thread_, maker_.AddAnnotation("outer"), 0);
  maker_.Begin(thread_, again, 10);
  maker_.EndOuter(thread_, outer, 20);
  maker_.Add(thread_, again, 30, 80);
  maker_.End(thread_, 90);
  const KeyAverages averages = Build();
  ASSERT_EQ(averages.rows.size(), 2u);
  EXPECT_EQ(averages.rows[1].name, "again");
  EXPECT_EQ(averages.rows[1].count, 1u);
  EXPECT_EQ(averages.rows[1].self_cpu_time_total_ns, 80);
}

TEST(TotalAverageTest, SumsFlops) {
  KeyAverages averages;
  averages.rows.resize(2);
  averages.rows[0].flops = 5;
  averages.rows[1].flops = 7;
  EXPECT_EQ(TotalAverage(averages).flops, 12);
}

TEST_F(KeyAveragesTest, GroupsByTheInnermostFrames) {
  const uint32_t main = maker_.AddCode("a.py", "main", 1);
  const uint32_t f = maker_.AddCode("a.py", "f", 10);
  const uint32_t backward = maker_.AddCode("torch/autograd/__init__.py", "backward", 20);
  const StackId first = maker_.AddFrame(maker_.AddFrame(kNoStack, main, 1), f);
  const StackId second = maker_.AddFrame(maker_.AddFrame(kNoStack, main, 2), f, 7);
  const StackId alone = maker_.AddFrame(kNoStack, f);
  const StackId in_backward = maker_.AddFrame(maker_.AddFrame(kNoStack, main, 3), backward);
  int64_t now = 0;
  for (const StackId stack : {first, second, alone, in_backward, kNoStack}) {
    const SpanId span = maker_.Add(thread_, maker_.AddOperator("aten::add"), now, now + 1);
    ASSERT_TRUE(maker_.SetStack(span, stack).ok());
    now += 10;
  }
  const KeyAverages averages = Build({.group_by_stack_n = 2});
  using Stack = std::vector<std::string>;
  ASSERT_EQ(averages.rows.size(), 4u);
  EXPECT_EQ(averages.rows[0].count, 2u);
  EXPECT_EQ(averages.rows[0].stack, (Stack{"a.py(10): f", "a.py(1): main"}));
  EXPECT_EQ(averages.rows[1].stack, Stack{"a.py(10): f"});
  EXPECT_EQ(averages.rows[2].stack, Stack{"a.py(1): main"});
  EXPECT_EQ(averages.rows[3].stack, Stack());
  EXPECT_EQ(averages.self_cpu_time_total_ns, 5);
}

TEST_F(KeyAveragesTest, SumsByNameInOrderOfFirstStart) {
  const LabelId linear = maker_.AddOperator("aten::linear");
  const LabelId addmm = maker_.AddOperator("aten::addmm");
  maker_.Begin(thread_, linear, 100);
  maker_.Add(thread_, addmm, 110, 150);
  maker_.End(thread_, 200);
  maker_.Add(thread_, addmm, 300, 310);

  const KeyAverages averages = Build();
  ASSERT_EQ(averages.rows.size(), 2u);
  EXPECT_EQ(averages.rows[0].name, "aten::linear");
  EXPECT_EQ(averages.rows[0].count, 1u);
  EXPECT_EQ(averages.rows[0].self_cpu_time_total_ns, 60);
  EXPECT_EQ(averages.rows[0].cpu_time_total_ns, 100);
  EXPECT_TRUE(averages.rows[0].is_top_level);
  EXPECT_EQ(averages.rows[1].count, 2u);
  EXPECT_EQ(averages.rows[1].cpu_time_total_ns, 50);
  EXPECT_DOUBLE_EQ(averages.rows[1].cpu_time_us(), 0.025);
  EXPECT_FALSE(averages.rows[1].is_top_level);  // its first span has a parent
  EXPECT_EQ(averages.self_cpu_time_total_ns, 110);
  const KeyAverage total = TotalAverage(averages);
  EXPECT_EQ(total.count, 3u);
  EXPECT_EQ(total.cpu_time_total_ns, 150);
}

TEST_F(KeyAveragesTest, OnlyChildOfTheSameNameIsFoldedIntoItsParent) {
  const LabelId add = maker_.AddOperator("aten::add", "Tensor");
  const LabelId add_out = maker_.AddOperator("aten::add", "out");
  const LabelId empty = maker_.AddOperator("aten::empty");
  maker_.Begin(thread_, add, 0);
  maker_.Begin(thread_, add_out, 10);
  maker_.Begin(thread_, add, 20);
  maker_.Add(thread_, empty, 25, 35);
  maker_.End(thread_, 80);
  maker_.End(thread_, 90);
  maker_.End(thread_, 100);

  const KeyAverages averages = Build();
  ASSERT_EQ(averages.rows.size(), 2u);
  EXPECT_EQ(averages.rows[0].count, 1u);
  EXPECT_EQ(averages.rows[0].cpu_time_total_ns, 100);
  EXPECT_EQ(averages.rows[0].self_cpu_time_total_ns, 90);
}

TEST_F(KeyAveragesTest, OneOfTwoChildrenOfTheSameNameStays) {
  const LabelId add = maker_.AddOperator("aten::add");
  maker_.Begin(thread_, add, 0);
  maker_.Add(thread_, add, 10, 20);
  maker_.Add(thread_, add, 30, 40);
  maker_.End(thread_, 100);

  const KeyAverages averages = Build();
  ASSERT_EQ(averages.rows.size(), 1u);
  EXPECT_EQ(averages.rows[0].count, 3u);
  EXPECT_EQ(averages.rows[0].self_cpu_time_total_ns, 100);
}

TEST_F(KeyAveragesTest, FilteredNamesLeaveTheTreeBeforeItIsBuilt) {
  const LabelId add = maker_.AddOperator("aten::add");
  const LabelId is_leaf = maker_.AddOperator("aten::is_leaf");
  maker_.Begin(thread_, add, 0);
  maker_.Begin(thread_, is_leaf, 5);
  maker_.Add(thread_, add, 10, 20);  // in torch's tree an only child, of the same name
  maker_.End(thread_, 30);
  maker_.End(thread_, 100);

  const KeyAverages averages = Build();
  ASSERT_EQ(averages.rows.size(), 1u);
  EXPECT_EQ(averages.rows[0].count, 1u);
  EXPECT_EQ(averages.rows[0].self_cpu_time_total_ns, 100);
}

TEST_F(KeyAveragesTest, SpansWithoutAnEndAreCountedApart) {
  const LabelId add = maker_.AddOperator("aten::add");
  const LabelId mul = maker_.AddOperator("aten::mul");
  maker_.Begin(thread_, add, 0);
  maker_.Begin(thread_, add, 10);
  maker_.Add(thread_, mul, 20, 30, SpanEnd::kLost);
  maker_.End(thread_, 40);
  maker_.End(thread_, 50, SpanEnd::kTruncated);

  const KeyAverages averages = Build();
  EXPECT_EQ(averages.incomplete_spans, 2u);
  ASSERT_EQ(averages.rows.size(), 1u);
  EXPECT_EQ(averages.rows[0].count, 1u);  // not folded into a parent whose time is not known
  EXPECT_EQ(averages.rows[0].cpu_time_total_ns, 30);
}

TEST_F(KeyAveragesTest, AsyncSpanHasTotalTimeOnly) {
  const LabelId step = maker_.AddAnnotation("step");
  const LabelId wait = maker_.AddAnnotation("wait");
  const LabelId mul = maker_.AddOperator("aten::mul");
  maker_.Begin(thread_, step, 0);
  maker_.MarkAsync(maker_.Begin(thread_, wait, 10));
  maker_.Add(thread_, mul, 20, 40);
  maker_.End(thread_, 60);
  maker_.End(thread_, 100);

  const KeyAverages averages = Build();
  ASSERT_EQ(averages.rows.size(), 3u);
  EXPECT_EQ(averages.rows[0].self_cpu_time_total_ns, 80);  // all but aten::mul
  EXPECT_TRUE(averages.rows[1].is_async);
  EXPECT_EQ(averages.rows[1].self_cpu_time_total_ns, 0);
  EXPECT_EQ(averages.rows[1].cpu_time_total_ns, 50);
  EXPECT_EQ(averages.self_cpu_time_total_ns, 100);
}

TEST_F(KeyAveragesTest, NamesAreRewrittenAsTorchDoes) {
  maker_.Add(thread_, maker_.AddAnnotation("ProfilerStep#1"), 0, 10);
  maker_.Add(thread_, maker_.AddAnnotation("ProfilerStep#2"), 20, 30);
  maker_.Add(thread_, maker_.AddOperator("_ZN2at3addEv"), 40, 50);
  maker_.Add(thread_, maker_.AddOperator("t"), 60, 70);
  maker_.Add(thread_, maker_.AddAnnotation("t"), 80, 90);

  const KeyAverages averages = Build();
  ASSERT_EQ(averages.rows.size(), 4u);
  EXPECT_EQ(averages.rows[0].name, "ProfilerStep*");
  EXPECT_EQ(averages.rows[0].count, 2u);
  EXPECT_EQ(averages.rows[1].name, "at::add()");
  EXPECT_EQ(averages.rows[2].name, "t");
  EXPECT_FALSE(averages.rows[2].is_user_annotation);
  EXPECT_EQ(averages.rows[3].name, "t");
  EXPECT_TRUE(averages.rows[3].is_user_annotation);
}

TEST_F(KeyAveragesTest, GroupsByOverloadNameWhenAsked) {
  maker_.Add(thread_, maker_.AddOperator("aten::add", "Tensor"), 0, 10);
  maker_.Add(thread_, maker_.AddOperator("aten::add", "Scalar"), 20, 30);
  const KeyAverages averages = Build({.group_by_overload_name = true});
  ASSERT_EQ(averages.rows.size(), 2u);
  EXPECT_EQ(averages.rows[0].overload_name, "Tensor");
  EXPECT_EQ(averages.rows[1].overload_name, "Scalar");
  EXPECT_EQ(BuildKeyAverages(*timeline_, {}).rows.size(), 1u);
}

TEST_F(KeyAveragesTest, NothingGivesNoRows) {
  const KeyAverages averages = Build();
  EXPECT_TRUE(averages.rows.empty());
  EXPECT_EQ(averages.self_cpu_time_total_ns, 0);
}

TEST(KeyAveragesChunksTest, ManyChunksGiveTheSumOfAll) {
  const std::unique_ptr<Timeline> timeline = MakeTrainingTimeline(200'000, 2);
  ASSERT_GT(timeline->spans().chunk_count(), 3u);
  const KeyAverages averages = BuildKeyAverages(*timeline, {});
  EXPECT_EQ(TotalAverage(averages).count, timeline->span_count());
  int64_t self_ns = 0;
  for (uint32_t i = 0; i < timeline->span_count(); ++i) self_ns += timeline->spans().at(i).self_ns;
  EXPECT_EQ(averages.self_cpu_time_total_ns, self_ns);
}

TEST(FoldedStacksTest, MergesOverloadsAndThreadsByName) {
  TimelineMaker maker;
  const ThreadIndex first = maker.AddThread(1, 1, "python3");
  const ThreadIndex second = maker.AddThread(2, 2, "python3");
  const LabelId step = maker.AddAnnotation("step");
  const LabelId tensor = maker.AddOperator("aten::add", "Tensor");
  const LabelId scalar = maker.AddOperator("aten::add", "Scalar");
  maker.Begin(first, step, 0);
  maker.Add(first, tensor, 10, 30);
  maker.End(first, 100);
  maker.Begin(second, step, 200);
  maker.Add(second, scalar, 210, 215);
  maker.Add(second, scalar, 220, 230, SpanEnd::kTruncated);
  maker.End(second, 300);
  const std::unique_ptr<Timeline> timeline = maker.Finish();

  const Aggregates aggregates = Aggregate(*timeline, {});
  const FoldedStacks& stacks = aggregates.stacks;
  ASSERT_EQ(stacks.nodes.size(), 3u);
  const StackValues& times = *stacks.Find(StackWeight::kSelfCpuTime);
  EXPECT_EQ(times.total, 190);
  EXPECT_EQ(times.self, (std::vector<int64_t>{0, 165, 25}));
  EXPECT_EQ(stacks.frames[stacks.nodes[1].frame].name, "step");
  EXPECT_EQ(stacks.nodes[1].count, 2u);
  EXPECT_EQ(stacks.nodes[2].count, 2u);
  EXPECT_EQ(aggregates.span_counts.of(SpanKind::kOperator), 3u);
  EXPECT_EQ(aggregates.span_counts.of(SpanKind::kAnnotation), 2u);
}

}  // namespace
}  // namespace proftrace
