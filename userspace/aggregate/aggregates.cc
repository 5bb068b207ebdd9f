#include "userspace/aggregate/aggregates.h"

#include <span>

namespace proftrace {
namespace {

StepWindows AllSteps(const Timeline& timeline, const Steps& steps) {
  const Window& window = timeline.info().window;
  StepWindows all;
  all.steps.push_back(0);
  all.intervals.emplace_back(window.start_ns, window.start_ns + window.duration_ns);
  if (!steps.main.has_value()) return all;
  const std::span<const Step> of_main = steps.processes[*steps.main].timed_steps();
  all.intervals.front() = {of_main.front().start_ns, of_main.back().end_ns};
  return all;
}

}  // namespace

Aggregates Aggregate(const Timeline& timeline, const AggregateOptions& options) {
  Aggregates aggregates;
  aggregates.cuda_sync_rows = options.cuda_sync_rows;
  aggregates.steps = FindSteps(timeline);
  if (options.step_rows || timeline.info().steps.has_value()) {
    aggregates.step_rows = StepRows(timeline, aggregates.steps);
  }
  KeyAveragesOptions key_averages = options.key_averages;
  const StepWindows* windows = nullptr;
  if (options.sums_all_steps) {
    aggregates.all_steps = AllSteps(timeline, aggregates.steps);
    windows = key_averages.windows = &aggregates.all_steps;
  }
  aggregates.key_averages = BuildKeyAverages(timeline, key_averages, aggregates.step_rows);
  if (options.stacks) BuildFoldedStacks(timeline, &aggregates.stacks, &aggregates.span_counts);
  if (timeline.has_stacks()) {
    aggregates.python_rows = PythonRows(timeline, aggregates.step_rows, options.spill_directory);
    aggregates.modules = SumModules(timeline, aggregates.python_rows, windows,
                                    windows == nullptr ? nullptr : &aggregates.module_shares);
  }
  if (timeline.has_device_records()) {
    aggregates.device_idle = FindDeviceIdle(timeline, aggregates.python_rows);
  }
  aggregates.time = BreakTimeDown(timeline, aggregates.steps);
  aggregates.data_waits = FindDataWaits(timeline, aggregates.steps);
  return aggregates;
}

}  // namespace proftrace
