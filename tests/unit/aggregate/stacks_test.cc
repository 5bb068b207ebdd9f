// Weights of call paths, and two recordings in one tree.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/stack_diff.h"
#include "userspace/aggregate/stack_weights.h"

namespace proftrace {
namespace {

std::string PathText(const FoldedStacks& stacks, uint32_t node) {
  std::string text;
  const std::vector<uint32_t> path = PathOf(stacks, node);
  for (size_t i = path.size(); i-- > 0;) {
    if (!text.empty()) text += ";";
    text += stacks.frames[stacks.nodes[path[i]].frame].name;
  }
  return text;
}

// Returns the sums that are not 0, by path.
std::map<std::string, int64_t> ByPath(const FoldedStacks& stacks, const StackValues& values) {
  std::map<std::string, int64_t> sums;
  for (uint32_t node = 0; node < stacks.nodes.size(); ++node) {
    if (values.self[node] != 0) sums[PathText(stacks, node)] += values.self[node];
  }
  return sums;
}

using Sums = std::map<std::string, int64_t>;

TEST(StackWeightsTest, EveryNameMeansOneWeight) {
  std::set<std::string_view> names;
  std::set<std::string_view> files;
  for (const StackWeightInfo& info : StackWeights()) {
    EXPECT_EQ(&InfoOf(info.weight), &info);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(files.insert(info.file_name).second) << info.file_name;
    EXPECT_EQ(FindStackWeight(info.name), &info);
    for (const std::string_view other : info.other_names) {
      if (other.empty()) continue;
      EXPECT_TRUE(names.insert(other).second) << other;
      EXPECT_EQ(FindStackWeight(other), &info);
    }
    EXPECT_NE(StackWeightNames().find(info.name), std::string::npos);
  }
  EXPECT_EQ(FindStackWeight(""), nullptr);
  EXPECT_EQ(FindStackWeight("self_cpu_time"), nullptr);
}

class StackSumsTest : public testing::Test {
 protected:
  absl::Status AddMemory(int64_t bytes, SpanId parent, uint8_t device_type = 0,
                         MemoryEventKind kind = MemoryEventKind::kUsage) {
    MemoryEvent event;
    event.bytes = bytes;
    event.parent = parent;
    event.device_type = device_type;
    event.kind = kind;
    return maker_.AddMemoryEvent(event);
  }

  const FoldedStacks& Build() {
    timeline_ = maker_.Finish();
    aggregates_ = Aggregate(*timeline_, {});
    return aggregates_.stacks;
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(1, 1, "python3");
  std::unique_ptr<Timeline> timeline_;
  Aggregates aggregates_;
};

TEST_F(StackSumsTest, MemoryIsWhatWasAllocatedWhetherFreedOrNot) {
  maker_.info().targets[0].memory_recorded = true;
  const SpanId add = maker_.Begin(thread_, maker_.AddOperator("aten::add"), 0);
  const SpanId empty = maker_.Add(thread_, maker_.AddOperator("aten::empty"), 10, 20);
  maker_.End(thread_, 100);
  ASSERT_TRUE(AddMemory(64, empty).ok());
  ASSERT_TRUE(AddMemory(-64, add).ok());
  ASSERT_TRUE(AddMemory(128, empty).ok());
  ASSERT_TRUE(AddMemory(7, kNoSpan).ok());
  ASSERT_TRUE(AddMemory(1 << 30, empty, 0, MemoryEventKind::kOutOfMemory).ok());
  ASSERT_TRUE(AddMemory(512, add, 1).ok());
  const FoldedStacks& stacks = Build();
  EXPECT_EQ(ByPath(stacks, *stacks.Find(StackWeight::kCpuMemory)),
            (Sums{{"aten::add;aten::empty", 192}, {std::string(kNoSpanFrame), 7}}));
  EXPECT_EQ(stacks.Find(StackWeight::kCpuMemory)->total, 199);
  EXPECT_EQ(ByPath(stacks, *stacks.Find(StackWeight::kDeviceMemory)), (Sums{{"aten::add", 512}}));
}

TEST_F(StackSumsTest, SamplesStandBelowTheirFramesAndWhatWasOpen) {
  const SpanId add = maker_.Begin(thread_, maker_.AddOperator("aten::add"), 0);
  const SpanId empty = maker_.Add(thread_, maker_.AddOperator("aten::empty"), 10, 20);
  maker_.End(thread_, 100);
  Samples samples;
  samples.functions = {{Pid{1}, SampleFrameKind::kPython, "main", "train.py", 3},
                       {Pid{1}, SampleFrameKind::kNative, "at::add", "/lib/libtorch_cpu.so", 0},
                       {Pid{1}, SampleFrameKind::kNative, "", "/lib/libc.so.6", 0},
                       {Pid{1}, SampleFrameKind::kKernel, "futex", "", 0}};
  // main, main > at::add, main > [libc.so.6] > futex
  samples.frames = {{}, {0, 0, 5}, {1, 1, 0}, {1, 2, 0}, {3, 3, 0}};
  const auto sample = [&](uint32_t frame, uint32_t count, SampleState state, SpanId span) {
    Sample one;
    one.period_ns = 10;
    one.count = count;
    one.frame = frame;
    one.state = state;
    one.span = span;
    one.thread = thread_;
    samples.samples.push_back(one);
  };
  sample(1, 1, SampleState::kRunning, kNoSpan);
  sample(1, 1, SampleState::kRunning, empty);  // no C was found: the operators tell
  sample(2, 2, SampleState::kRunning, add);
  sample(4, 30, SampleState::kSleeping, add);
  sample(1, 4, SampleState::kRunnable, kNoSpan);
  sample(0, 5, SampleState::kUninterruptible, kNoSpan);
  sample(0, 6, SampleState::kRunning, add);
  maker_.SetSamples(std::move(samples));
  const FoldedStacks& stacks = Build();
  const std::string main = "train.py(3): main";
  EXPECT_EQ(ByPath(stacks, *stacks.Find(StackWeight::kSampledOnCpu)),
            (Sums{{main, 10},
                  {main + ";aten::add;aten::empty", 10},
                  {main + ";at::add", 20},
                  {"aten::add", 60}}));
  EXPECT_EQ(
      ByPath(stacks, *stacks.Find(StackWeight::kSampledOffCpu)),
      (Sums{{main + ";[libc.so.6];futex_[k]", 300}, {main, 40}, {std::string(kNoFrameFrame), 50}}));
  // They weigh nothing in what was measured.
  EXPECT_EQ(stacks.Find(StackWeight::kSelfCpuTime)->total, 100);
}

TEST_F(StackSumsTest, APathLeadsFromPythonOverModulesAndOperatorsToKernels) {
  PythonModule linear;
  linear.class_name = "Linear";
  const uint32_t module = maker_.AddModule(linear);
  const uint32_t call = maker_.AddCode("torch/nn/modules/module.py", "_wrapped_call_impl", 1773);
  const StackId main = maker_.AddFrame(kNoStack, maker_.AddCode("train.py", "main", 1), 3);
  const StackId layer = maker_.AddFrame(main, call, 2, module);
  const SpanId op = maker_.Begin(thread_, maker_.AddOperator("aten::linear"), 0);
  ASSERT_TRUE(maker_.SetStack(op, layer).ok());
  const SpanId inner = maker_.Add(thread_, maker_.AddOperator("aten::addmm"), 10, 30);
  maker_.End(thread_, 100);
  for (const int64_t start_ns : {200, 300}) {
    ASSERT_TRUE(maker_.AddKernel(inner, "aten::linear", start_ns, 50).ok());
  }
  ASSERT_TRUE(maker_.AddKernel(op, "fill", 400, 7).ok());
  ASSERT_TRUE(maker_.AddKernel(kNoSpan, "fill", 500, 9).ok());
  const FoldedStacks& stacks = Build();
  const StackValues& times = *stacks.Find(StackWeight::kSelfDeviceTime);
  const std::string in_layer = "train.py(1): main;nn.Module: Linear_0;aten::linear";
  EXPECT_EQ(ByPath(stacks, times), (Sums{{in_layer + ";aten::addmm;aten::linear", 100},
                                         {in_layer + ";fill", 7},
                                         {std::string(kNoCallFrame) + ";fill", 9}}));
  EXPECT_EQ(times.total, 116);
  // As export_stacks() has it: what asked for the work, and no kernels.
  EXPECT_EQ(
      ByPath(stacks, {times.weight, WithoutDeviceFrames(stacks, times.self), times.total}),
      (Sums{{in_layer, 7}, {in_layer + ";aten::addmm", 100}, {std::string(kNoCallFrame), 9}}));
  std::vector<FrameKind> kinds;
  for (uint32_t node = 1; node < stacks.nodes.size(); ++node) {
    if (times.self[node] != 100) continue;
    EXPECT_EQ(stacks.nodes[node].count, 2u);
    for (const uint32_t at : PathOf(stacks, node)) {
      kinds.push_back(stacks.frames[stacks.nodes[at].frame].kind);
    }
  }
  EXPECT_EQ(kinds,
            (std::vector<FrameKind>{FrameKind::kDevice, FrameKind::kOperator, FrameKind::kOperator,
                                    FrameKind::kModule, FrameKind::kPython}));
}

TEST_F(StackSumsTest, WhatWasNotRecordedIsNoWeight) {
  maker_.Add(thread_, maker_.AddOperator("aten::add"), 0, 10);
  const FoldedStacks& stacks = Build();
  for (const StackWeight weight :
       {StackWeight::kSelfDeviceTime, StackWeight::kCpuMemory, StackWeight::kDeviceMemory}) {
    EXPECT_EQ(stacks.Find(weight), nullptr);
    EXPECT_EQ(std::string(RecordedValues(stacks, weight).status().message()),
              InfoOf(weight).missing);
  }
  EXPECT_TRUE(RecordedValues(stacks, StackWeight::kCount).ok());
}

TEST_F(StackSumsTest, StepsAreOneFrame) {
  for (const int64_t start_ns : {0, 100}) {
    maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(start_ns)),
                 start_ns);
    maker_.Add(thread_, maker_.AddOperator("aten::add"), start_ns + 10, start_ns + 30);
    maker_.End(thread_, start_ns + 50);
  }
  const FoldedStacks& stacks = Build();
  EXPECT_EQ(ByPath(stacks, *stacks.Find(StackWeight::kSelfCpuTime)),
            (Sums{{"ProfilerStep*", 60}, {"ProfilerStep*;aten::add", 40}}));
}

TEST_F(StackSumsTest, AsyncSpansCountAndHaveNoTime) {
  maker_.MarkAsync(maker_.Add(thread_, maker_.AddOperator("aten::add"), 0, 10));
  const FoldedStacks& stacks = Build();
  EXPECT_EQ(stacks.Find(StackWeight::kSelfCpuTime)->total, 0);
  EXPECT_EQ(ByPath(stacks, *stacks.Find(StackWeight::kCount)), (Sums{{"aten::add", 1}}));
}

TEST_F(StackSumsTest, AWindowHoldsPartsOfStepsAtItsEnds) {
  maker_.info().window.start_ns = 1000;
  maker_.info().window.duration_ns = 1000;
  Build();
  Steps steps;
  EXPECT_EQ(StepsInWindow(*timeline_, steps), std::nullopt);
  ProcessSteps main;
  main.steps = {{1100, 1300, 0}, {1300, 1500, 1}, {1500, 1700, 2}};
  main.median_ns = 200;
  main.confidence = 0.9;
  steps.processes.push_back(main);
  steps.main = 0;
  EXPECT_EQ(StepsInWindow(*timeline_, steps),
            4.5);  // half a one before, and no more than one after
  steps.processes[0].confidence = 0.4;
  EXPECT_EQ(StepsInWindow(*timeline_, steps), std::nullopt);
}

struct PathSum {
  std::vector<StackFrame> path;
  int64_t self_ns;
};

FoldedStacks MakeStacks(const std::vector<PathSum>& paths) {
  FoldedStacks stacks;
  stacks.nodes.emplace_back();
  StackValues values{StackWeight::kSelfCpuTime, {0}, 0};
  for (const PathSum& path : paths) {
    uint32_t at = 0;
    for (const StackFrame& frame : path.path) {
      uint32_t id = 0;
      while (id < stacks.frames.size() &&
             (stacks.frames[id].name != frame.name || stacks.frames[id].kind != frame.kind)) {
        ++id;
      }
      if (id == stacks.frames.size()) stacks.frames.push_back(frame);
      uint32_t node = 1;
      while (node < stacks.nodes.size() &&
             (stacks.nodes[node].parent != at || stacks.nodes[node].frame != id)) {
        ++node;
      }
      if (node == stacks.nodes.size()) {
        stacks.nodes.push_back(StackNode{at, id, 0});
        values.self.push_back(0);
      }
      at = node;
    }
    values.self[at] += path.self_ns;
    values.total += path.self_ns;
    ++stacks.nodes[at].count;
  }
  stacks.values.push_back(values);
  return stacks;
}

StackFrame Operator(const std::string& name) {
  return StackFrame{name, FrameKind::kOperator, {}, 0};
}

StackFrame Function(const std::string& file, int32_t line, const std::string& name) {
  return StackFrame{file + "(" + std::to_string(line) + "): " + name, FrameKind::kPython, file,
                    line};
}

TEST(StackDiffTest, EachSideKeepsItsOwnFigures) {
  const FoldedStacks before = MakeStacks({{{Operator("a")}, 10},
                                          {{Operator("a"), Operator("gone")}, 5},
                                          {{Operator("b"), Operator("a")}, 3}});
  const FoldedStacks after = MakeStacks(
      {{{Operator("new"), Operator("a")}, 4}, {{Operator("a")}, 20}, {{Operator("b")}, 1}});
  const StackDiff diff = DiffStacks(before, after);
  ASSERT_EQ(diff.before.size(), 1u);
  EXPECT_EQ(ByPath(diff.after, diff.before[0]), (Sums{{"a", 10}, {"a;gone", 5}, {"b;a", 3}}));
  EXPECT_EQ(ByPath(diff.after, diff.after.values[0]), (Sums{{"a", 20}, {"b", 1}, {"new;a", 4}}));
  EXPECT_EQ(diff.before[0].total, 18);
  EXPECT_EQ(diff.after.values[0].total, 25);
  EXPECT_EQ(diff.after.nodes.size(), 7u);  // the root, a, a;gone, b, b;a, new, new;a
  for (uint32_t node = 1; node < diff.after.nodes.size(); ++node) {
    EXPECT_LT(diff.after.nodes[node].parent, node);
    EXPECT_EQ(diff.before_counts[node], diff.before[0].self[node] > 0 ? 1u : 0u);
  }
}

TEST(StackDiffTest, AKernelIsNotTheOperatorOfItsName) {
  const StackFrame kernel{"copy", FrameKind::kDevice, {}, 0};
  const StackDiff diff =
      DiffStacks(MakeStacks({{{kernel}, 1}}), MakeStacks({{{Operator("copy")}, 1}}));
  EXPECT_EQ(diff.after.nodes.size(), 3u);
}

TEST(StackDiffTest, FunctionsThatMovedInTheirFileArePaired) {
  const FoldedStacks before = MakeStacks({{{Function("m.py", 10, "forward")}, 1},
                                          {{Function("m.py", 30, "forward")}, 2},
                                          {{Function("m.py", 50, "loss")}, 4},
                                          {{Function("m.py", 70, "old")}, 8}});
  const FoldedStacks after = MakeStacks({{{Function("m.py", 33, "forward")}, 1},
                                         {{Function("m.py", 12, "forward")}, 1},
                                         {{Function("m.py", 50, "loss")}, 1},
                                         {{Function("n.py", 70, "old")}, 1}});
  const StackDiff diff = DiffStacks(before, after);
  EXPECT_EQ(ByPath(diff.after, diff.before[0]), (Sums{{"m.py(12): forward", 1},
                                                      {"m.py(33): forward", 2},
                                                      {"m.py(50): loss", 4},
                                                      {"m.py(70): old", 8}}));
  EXPECT_EQ(diff.before[0].total, 15);
}

// Frames of samples are named by the function alone, and their file may be longer than that name.
TEST(StackDiffTest, FramesOfCAreNotNamedByTheirFile) {
  const StackFrame before{"clone", FrameKind::kPython, "/usr/lib/x86_64-linux-gnu/libc.so.6", 0};
  const StackFrame after{"poll", FrameKind::kPython, "/usr/lib/x86_64-linux-gnu/libc.so.6", 0};
  const StackDiff diff = DiffStacks(MakeStacks({{{before}, 2}}), MakeStacks({{{after}, 1}}));
  EXPECT_EQ(ByPath(diff.after, diff.before[0]), (Sums{{"clone", 2}}));
  EXPECT_EQ(ByPath(diff.after, diff.after.values[0]), (Sums{{"poll", 1}}));
}

TEST(StackDiffTest, FunctionsWhoseNumberChangedAreNotGuessed) {
  const FoldedStacks before = MakeStacks({{{Function("m.py", 10, "forward")}, 1}});
  const FoldedStacks after =
      MakeStacks({{{Function("m.py", 12, "forward")}, 1}, {{Function("m.py", 33, "forward")}, 1}});
  EXPECT_EQ(ByPath(DiffStacks(before, after).after, DiffStacks(before, after).before[0]),
            (Sums{{"m.py(10): forward", 1}}));
}

TEST(StackDiffTest, OnlyWeightsOfBothAreCompared) {
  FoldedStacks before = MakeStacks({{{Operator("a")}, 1}});
  FoldedStacks after = before;
  after.values.push_back(StackValues{StackWeight::kCpuMemory, {0, 5}, 5});
  before.values.push_back(StackValues{StackWeight::kCount, {0, 5}, 5});
  const StackDiff diff = DiffStacks(before, after);
  ASSERT_EQ(diff.after.values.size(), 1u);
  EXPECT_EQ(diff.after.values[0].weight, StackWeight::kSelfCpuTime);
  EXPECT_EQ(diff.before.size(), 1u);
}

}  // namespace
}  // namespace proftrace
