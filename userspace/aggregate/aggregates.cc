#include "userspace/aggregate/aggregates.h"

namespace proftrace {

Aggregates Aggregate(const Timeline& timeline, const AggregateOptions& options) {
  Aggregates aggregates;
  aggregates.cuda_sync_rows = options.cuda_sync_rows;
  aggregates.steps = FindSteps(timeline);
  if (options.step_rows || timeline.info().steps.has_value()) {
    aggregates.step_rows = StepRows(timeline, aggregates.steps);
  }
  aggregates.key_averages = BuildKeyAverages(timeline, options.key_averages, aggregates.step_rows);
  BuildFoldedStacks(timeline, &aggregates.stacks, &aggregates.span_counts);
  if (timeline.has_stacks()) {
    aggregates.python_rows = PythonRows(timeline, aggregates.step_rows, options.spill_directory);
    aggregates.modules = SumModules(timeline, aggregates.python_rows);
  }
  if (timeline.has_device_records()) {
    aggregates.device_idle = FindDeviceIdle(timeline, aggregates.python_rows);
  }
  aggregates.time = BreakTimeDown(timeline, aggregates.steps);
  aggregates.data_waits = FindDataWaits(timeline, aggregates.steps);
  return aggregates;
}

}  // namespace proftrace
