// Steps of several processes: which of them encloses a span, and how they are looked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/key_averages.h"
#include "userspace/aggregate/steps.h"

namespace proftrace {
namespace {

constexpr int64_t kStart = 6'000'000'000;

Span SpanOf(ThreadIndex thread, int64_t start_ns, int64_t end_ns) {
  Span span;
  span.thread = thread;
  span.start_ns = start_ns;
  span.duration_ns = end_ns - start_ns;
  return span;
}

TEST(StepsOfProcessesTest, EncloseTheSpansOfTheirOwnThread) {
  TimelineMaker maker;
  std::vector<ThreadIndex> threads;
  Steps steps;
  for (uint32_t pid = 1; pid <= 3; ++pid) {
    threads.push_back(maker.AddThread(pid, pid, "python3"));
    ProcessSteps process;
    process.pid = Pid{pid};
    process.thread = threads.back();
    for (int64_t step = 0; step < 4; ++step) {
      const int64_t start_ns = 100 * step + 10 * pid;
      process.steps.push_back({start_ns, start_ns + 50, step});
    }
    if (pid < 3) steps.processes.push_back(process);
  }
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const StepRows rows(*timeline, steps);
  ASSERT_EQ(rows.rows().size(), 8u);
  const auto enclosing = [&](ThreadIndex thread, int64_t start_ns, int64_t end_ns) -> std::string {
    const std::optional<size_t> row = rows.ParentOf(SpanOf(thread, start_ns, end_ns));
    if (!row.has_value()) return "none";
    EXPECT_EQ(rows.rows()[*row].thread, thread);
    return std::to_string(rows.rows()[*row].step.number);
  };
  EXPECT_EQ(enclosing(threads[0], 5, 8), "none") << "before the first one";
  EXPECT_EQ(enclosing(threads[0], 10, 60), "0");
  EXPECT_EQ(enclosing(threads[0], 10, 61), "none");
  EXPECT_EQ(enclosing(threads[0], 60, 60), "none");
  EXPECT_EQ(enclosing(threads[0], 125, 130), "1") << "the other process's begins in between";
  EXPECT_EQ(enclosing(threads[1], 115, 118), "none");
  EXPECT_EQ(enclosing(threads[1], 325, 330), "3");
  EXPECT_EQ(enclosing(threads[2], 135, 140), "none") << "it drives no steps";
  EXPECT_FALSE(StepRows().ParentOf(SpanOf(threads[0], 10, 20)).has_value());
}

// A training process with batches from `loader`, and a child of it that goes round as a worker.
std::unique_ptr<Timeline> JobWithChild(const std::string& loader) {
  TimelineMaker maker;
  const ThreadIndex trainer = maker.AddThread(1, 1, "python3");
  const ThreadIndex child = maker.AddThread(2, 2, "python3");
  maker.info().targets.at(1).ppid = Pid{1};
  const LabelId next = maker.AddAnnotation(loader);
  const LabelId linear = maker.AddOperator("aten::linear");
  const LabelId optimizer = maker.AddAnnotation("Optimizer.step#SGD.step");
  std::vector<LabelId> rounds;
  for (const char* name : {"aten::randn", "aten::mm", "aten::select", "aten::stack"}) {
    rounds.push_back(maker.AddOperator(name));
  }
  for (int64_t now_ns = kStart; now_ns < kStart + 30'000'000; now_ns += 1'000'000) {
    for (size_t i = 0; i < rounds.size(); ++i) {
      const auto at = now_ns + 10'000 * static_cast<int64_t>(i);
      maker.Add(child, rounds[i], at, at + 5'000);
    }
    maker.Add(trainer, next, now_ns + 100'000, now_ns + 200'000);
    maker.Add(trainer, linear, now_ns + 300'000, now_ns + 400'000);
    maker.Add(trainer, optimizer, now_ns + 500'000, now_ns + 600'000);
  }
  maker.info().window.duration_ns = 2 * kStart;
  return maker.Finish();
}

TEST(StepsOfProcessesTest, RoundsOfAWorkerOfADataLoaderAreNoSteps) {
  const Steps with_workers =
      FindSteps(*JobWithChild("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"));
  ASSERT_EQ(with_workers.processes.size(), 1u);
  EXPECT_EQ(with_workers.processes[0].pid, Pid{1});
  const Steps without =
      FindSteps(*JobWithChild("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"));
  EXPECT_EQ(without.processes.size(), 2u) << "the child is none of its workers";
}

// As Kineto has it of annotations: work is of the innermost that asked for it.
TEST(StepsOfProcessesTest, HaveTheWorkOfDevicesThatNoAnnotationInThemAskedFor) {
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(1, 1, "python3");
  const LabelId op = maker.AddOperator("aten::mm");
  const LabelId inner = maker.AddAnnotation("inner");
  const SpanId epoch = maker.Begin(thread, maker.AddAnnotation("epoch"), 5);
  Steps steps;
  ProcessSteps process;
  process.pid = Pid{1};
  process.thread = thread;
  for (int64_t step = 0; step < 2; ++step) {
    const int64_t start_ns = 100 + 100 * step;
    process.steps.push_back({start_ns, start_ns + 90, step});
    const SpanId direct = maker.Add(thread, op, start_ns + 10, start_ns + 20);
    ASSERT_TRUE(maker.AddKernel(direct, "gemm", start_ns + 1'000, 30).ok());
    maker.Begin(thread, inner, start_ns + 30);
    const SpanId within = maker.Add(thread, op, start_ns + 40, start_ns + 50);
    ASSERT_TRUE(maker.AddKernel(within, "gemm", start_ns + 1'050, 10).ok());
    maker.End(thread, start_ns + 60);
  }
  const SpanId behind = maker.Add(thread, op, 400, 410);
  ASSERT_TRUE(maker.AddKernel(behind, "gemm", 2'000, 10).ok());
  maker.End(thread, 500);
  steps.processes.push_back(process);
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const StepRows rows(*timeline, steps);
  std::vector<std::string> found;
  for (const DeviceAnnotation& annotation : rows.DeviceAnnotations(*timeline)) {
    found.push_back(rows.NameOf(*timeline, annotation) + " " + std::to_string(annotation.start_ns) +
                    " to " + std::to_string(annotation.end_ns));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"ProfilerStep#0 1100 to 1130", "inner 1150 to 1160",
                                             "ProfilerStep#1 1200 to 1230", "inner 1250 to 1260",
                                             "epoch 2000 to 2010"}));
  EXPECT_EQ(rows.rows()[0].parent, epoch);
  const KeyAverages averages = BuildKeyAverages(*timeline, {}, rows);
  const auto row =
      std::find_if(averages.rows.begin(), averages.rows.end(), [](const KeyAverage& average) {
        return average.name == "ProfilerStep*" && average.is_device;
      });
  ASSERT_NE(row, averages.rows.end());
  EXPECT_EQ(row->device_time_total_ns, 60);
}

TEST(StepsOfProcessesTest, LookedAtTogetherOrOneByOneTheyAreTheSame) {
  TimelineMaker maker;
  const LabelId linear = maker.AddOperator("aten::linear");
  const LabelId optimizer = maker.AddAnnotation("Optimizer.step#SGD.step");
  std::vector<ThreadIndex> threads;
  for (uint32_t pid = 1; pid <= 3; ++pid) {
    threads.push_back(maker.AddThread(pid, pid, "python3"));
    threads.push_back(maker.AddThread(pid, 10 + pid, "worker"));
  }
  for (int64_t now_ns = kStart; now_ns < kStart + 20'000; now_ns += 1'000) {
    for (size_t i = 0; i < threads.size(); i += 2) {
      maker.Add(threads[i], linear, now_ns, now_ns + 100);
      maker.Add(threads[i], optimizer, now_ns + 200, now_ns + 300);
      maker.Add(threads[i + 1], linear, now_ns + 300, now_ns + 900);
    }
  }
  maker.info().window.duration_ns = 2 * kStart;
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const Steps together = FindSteps(*timeline);
  const Steps one_by_one = FindSteps(*timeline, /*most_items=*/1);
  ASSERT_EQ(together.processes.size(), 3u);
  ASSERT_EQ(one_by_one.processes.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const ProcessSteps& process = one_by_one.processes[i];
    EXPECT_EQ(process.thread, threads[2 * i]);
    EXPECT_EQ(process.steps.size(), 20u);
    EXPECT_EQ(process.steps.size(), together.processes[i].steps.size());
    EXPECT_EQ(process.median_ns, 1'000);
  }
}

}  // namespace
}  // namespace proftrace
