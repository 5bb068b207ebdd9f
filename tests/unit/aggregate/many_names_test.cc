// Names that never repeat: outputs have those of the most weight, and say how many the others are.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/bound_stacks.h"
#include "userspace/aggregate/key_averages.h"
#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

FoldedStacks RandomStacks(uint32_t seed, uint32_t nodes) {
  std::mt19937 random(seed);
  FoldedStacks stacks;
  stacks.nodes.emplace_back();
  StackValues time{StackWeight::kSelfCpuTime, {0}, 0};
  StackValues bytes{StackWeight::kCpuMemory, {0}, 0};
  for (uint32_t i = 1; i < nodes; ++i) {
    stacks.frames.push_back({"f" + std::to_string(i), FrameKind::kOperator, {}, 0});
    stacks.nodes.push_back({static_cast<uint32_t>(random() % std::min(i, 200u)), i - 1, 1});
    time.self.push_back(random() % 1000 == 0 ? 100'000 : random() % 10);
    bytes.self.push_back(random() % 500 == 0 ? 1'000'000 : 0);
    time.total += time.self.back();
    bytes.total += bytes.self.back();
  }
  stacks.values = {time, bytes};
  return stacks;
}

TEST(ManyNamesTest, NamesBeyondTheLimitAreOneRowThatIsTold) {
  constexpr uint32_t kNames = 200'000;
  TimelineBuilder builder("");
  const ThreadIndex thread = builder.AddThread(Pid{1}, Tid{1}, "");
  PathId last = kRootPath;
  for (uint32_t i = 0; i < kNames; ++i) {
    Label label;
    label.name = "step " + std::to_string(i);
    label.category = Category::kUserAnnotation;
    Span span;
    span.thread = thread;
    span.label = builder.InternLabel(label);
    span.start_ns = i;
    span.path = last = builder.InternPath(kRootPath, span.label);
    ASSERT_TRUE(builder.AddSpan(span).ok());
  }
  Label known;
  known.name = "step 5";
  known.category = Category::kUserAnnotation;
  EXPECT_EQ(builder.label(builder.InternLabel(known)).name, "step 5");
  const std::unique_ptr<Timeline> timeline = builder.Finish(RecordingInfo(), Ledger());
  EXPECT_EQ(timeline->labels().size(), kMostNames + 1);
  EXPECT_LE(Raw(last), kMostNames + 1);
  EXPECT_EQ(timeline->label(timeline->span(SpanId{kMostNames - 1}).label).name,
            "step " + std::to_string(kMostNames - 1));
  EXPECT_EQ(timeline->label(timeline->span(SpanId{kNames - 1}).label).name, "step *");
  EXPECT_EQ(timeline->label(timeline->span(SpanId{kNames - 1}).label).category,
            Category::kUserAnnotation);
  ASSERT_EQ(timeline->info().unsupported.size(), 1u);
  EXPECT_NE(timeline->info().unsupported[0].reason.find(
                "68928 of them are told as a group, in whose name each number is a *, and 0 are"),
            std::string::npos)
      << timeline->info().unsupported[0].reason;
}

// A text without digits for each number.
std::string Letters(uint32_t number) {
  std::string letters;
  for (int i = 0; i < 5; ++i, number /= 26) letters += static_cast<char>('a' + number % 26);
  return letters;
}

TEST(ManyNamesTest, NamesWithoutNumbersAndTooManyGroupsAreOneRow) {
  TimelineBuilder builder("");
  const ThreadIndex thread = builder.AddThread(Pid{1}, Tid{1}, "");
  const uint32_t names = kMostNames + kMostNameGroups + 1000;
  for (uint32_t i = 0; i < names + 1000; ++i) {
    Label label;
    label.name = Letters(i) + (i % 2 == 0 || i < names ? " 1" : "");
    label.kind = SpanKind::kAnnotation;
    Span span;
    span.thread = thread;
    span.label = builder.InternLabel(label);
    span.path = builder.InternPath(kRootPath, span.label);
    ASSERT_TRUE(builder.AddSpan(span).ok());
  }
  const std::unique_ptr<Timeline> timeline = builder.Finish(RecordingInfo(), Ledger());
  EXPECT_EQ(timeline->labels().size(), kMostNames + kMostNameGroups + 1);
  EXPECT_EQ(timeline->labels()[kMostNames].name, Letters(kMostNames) + " *");
  EXPECT_EQ(timeline->labels().back().name, kOtherNames);
  ASSERT_EQ(timeline->info().unsupported.size(), 1u);
  const std::string& reason = timeline->info().unsupported[0].reason;
  EXPECT_NE(reason.find("16384 of them are told as a group"), std::string::npos) << reason;
  EXPECT_NE(reason.find("2000 are called <other names>"), std::string::npos) << reason;
}

// Steps with a number in their name that have a hundred operators each: their paths are more than
// their names.
TEST(ManyNamesTest, PathsBeyondTheLimitHaveTheGroupsOfAnnotations) {
  constexpr uint32_t kOperators = 100;
  constexpr uint32_t kSteps = kMostPaths / kOperators + 100;
  TimelineBuilder builder("");
  const ThreadIndex thread = builder.AddThread(Pid{1}, Tid{1}, "");
  const auto text = [&builder](PathId path) {
    std::string names;
    for (PathNode node = builder.path(path); node.depth > 0; node = builder.path(node.parent)) {
      names = "/" + builder.label(node.label).name + names;
    }
    return names;
  };
  const auto add = [&](PathId above, const std::string& name, SpanKind kind) {
    Label label;
    label.name = name;
    label.kind = kind;
    Span span;
    span.thread = thread;
    span.label = builder.InternLabel(label);
    span.path = builder.InternPath(above, span.label);
    EXPECT_TRUE(builder.AddSpan(span).ok());
    return span.path;
  };
  PathId last{};
  for (uint32_t step = 0; step < kSteps; ++step) {
    const PathId path = add(kRootPath, "step " + std::to_string(step), SpanKind::kAnnotation);
    if (step == 5) EXPECT_EQ(text(path), "/step 5");
    for (uint32_t i = 0; i < kOperators; ++i) {
      last = add(path, "aten::conv" + std::to_string(i) + "d", SpanKind::kOperator);
    }
  }
  EXPECT_EQ(text(last), "/step */aten::conv99d");
  EXPECT_EQ(builder.label(builder.span(SpanId{builder.span_count() - 101}).label).name,
            "step " + std::to_string(kSteps - 1));
  const std::unique_ptr<Timeline> timeline = builder.Finish(RecordingInfo(), Ledger());
  EXPECT_LT(timeline->paths().size(), kMostPaths + 300);
  ASSERT_EQ(timeline->info().unsupported.size(), 1u);
  EXPECT_EQ(timeline->info().unsupported[0].feature, "paths");
  EXPECT_NE(timeline->info().unsupported[0].reason.find("and 0 are on"), std::string::npos);
}

// Kernels that are compiled for each shape.
TEST(ManyNamesTest, NamesOfGpuWorkBeyondTheLimitAreOneThatIsTold) {
  TimelineBuilder builder("");
  DeviceNameId last{};
  for (uint32_t i = 0; i < 200'000; ++i) {
    last = builder.InternDeviceName("kernel_" + std::to_string(i));
  }
  EXPECT_EQ(builder.InternDeviceName("kernel_7"), DeviceNameId{7});
  const std::unique_ptr<Timeline> timeline = builder.Finish(RecordingInfo(), Ledger());
  EXPECT_EQ(timeline->device_name(last), "kernel_*");
  EXPECT_EQ(Raw(last), kMostNames);
  ASSERT_EQ(timeline->info().unsupported.size(), 1u);
  EXPECT_EQ(timeline->info().unsupported[0].feature, "names of GPU work");
}

TEST(BoundStacksTest, TotalsStayAndTheLargestAreKept) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const FoldedStacks before = RandomStacks(seed, 5000);
    FoldedStacks after = before;
    BoundStacks(400, &after);
    ASSERT_LE(after.nodes.size(), 1 + 2 * 400u + 1);
    ASSERT_LE(after.frames.size(), after.nodes.size());
    uint64_t count = 0;
    for (const StackNode& node : after.nodes) count += node.count;
    EXPECT_EQ(count, 4999u);
    for (size_t weight = 0; weight < before.values.size(); ++weight) {
      const StackValues& values = after.values[weight];
      ASSERT_EQ(values.self.size(), after.nodes.size());
      EXPECT_EQ(values.total, before.values[weight].total);
      int64_t sum = 0;
      for (const int64_t self : values.self) sum += self;
      EXPECT_EQ(sum, values.total);
    }
    // Each heavy leaf has its own frame still.
    for (uint32_t node = 1; node < before.nodes.size(); ++node) {
      if (before.values[0].self[node] < 100'000) continue;
      const std::string& name = before.frames[before.nodes[node].frame].name;
      bool is_there = false;
      for (uint32_t other = 1; other < after.nodes.size(); ++other) {
        is_there |= after.frames[after.nodes[other].frame].name == name &&
                    after.values[0].self[other] == before.values[0].self[node];
      }
      EXPECT_TRUE(is_there) << name;
    }
    for (uint32_t node = 1; node < after.nodes.size(); ++node) {
      ASSERT_LT(after.nodes[node].parent, node);
    }
  }
}

TEST(BoundStacksTest, WhatIsLeftOutIsCountedWhereItWas) {
  FoldedStacks stacks;
  stacks.nodes.emplace_back();
  StackValues time{StackWeight::kSelfCpuTime, {0}, 0};
  for (uint32_t i = 1; i <= 10; ++i) {
    stacks.frames.push_back({"step " + std::to_string(i), FrameKind::kAnnotation, {}, 0});
    stacks.nodes.push_back({0, i - 1, 1});
    time.self.push_back(i);
    time.total += i;
  }
  stacks.values = {time};
  BoundStacks(3, &stacks);
  ASSERT_EQ(stacks.nodes.size(), 5u);
  uint32_t found = 0;
  for (uint32_t node = 1; node < 5; ++node) {
    if (stacks.frames[stacks.nodes[node].frame].name != "… and 7 others") continue;
    ++found;
    EXPECT_EQ(stacks.nodes[node].count, 7u);
    EXPECT_EQ(stacks.values[0].self[node], 28);
  }
  EXPECT_EQ(found, 1u);
}

TEST(ManyNamesTest, KeyAveragesHaveARowOfTheOthersAndTheirSums) {
  constexpr uint32_t kNames = (1u << 16) + 500;
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(1, 1, "python3");
  int64_t now_ns = 0;
  int64_t sum_ns = 0;
  for (uint32_t i = 0; i < kNames; ++i) {
    const int64_t duration_ns = 10 + (i * 7919) % 1000;
    maker.Add(thread, maker.AddAnnotation("step " + std::to_string(i)), now_ns,
              now_ns + duration_ns);
    now_ns += 2000;
    sum_ns += duration_ns;
  }
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const KeyAverages averages = BuildKeyAverages(*timeline, {});
  ASSERT_EQ(averages.rows.size(), (1u << 16) + 1);
  EXPECT_EQ(averages.self_cpu_time_total_ns, sum_ns);
  uint64_t count = 0;
  uint32_t found = 0;
  for (const KeyAverage& row : averages.rows) {
    count += row.count;
    if (row.name != "… and 500 others") continue;
    ++found;
    EXPECT_EQ(row.count, 500u);
  }
  EXPECT_EQ(found, 1u);
  EXPECT_EQ(count, kNames);
}

}  // namespace
}  // namespace proftrace
