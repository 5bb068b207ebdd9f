// All sums and tables that exporters show beside the spans themselves, computed once for all
// exporters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "userspace/aggregate/data_waits.h"
#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/key_averages.h"
#include "userspace/aggregate/module_times.h"
#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/step_windows.h"
#include "userspace/aggregate/steps.h"
#include "userspace/aggregate/time_breakdown.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct Aggregates {
  KeyAverages key_averages;
  FoldedStacks stacks;
  std::vector<DeviceIdle> device_idle;  // empty where no GPU agent recorded
  SpanCounts span_counts;
  std::optional<TimeBreakdown> time;  // of the thread that drives the job; needs the scheduler
  std::vector<DataWait> data_waits;   // of that thread
  Steps steps;
  StepRows step_rows;      // empty unless asked for
  PythonRows python_rows;  // none where no stacks were recorded
  ModuleSums modules;      // none where no stacks were recorded
  // With AggregateOptions::sums_all_steps: one window from the begin of the main process's first
  // step to the end of its last one, or the whole recording where there are no steps.
  // key_averages.by_window has the sums in this window, and module_shares those of `modules`.
  StepWindows all_steps;
  std::vector<WindowShare> module_shares;
  // Whether traces have rows for waits for a GPU and for CUDA events, as torch's traces have with
  // _ExperimentalConfig(enable_cuda_sync_events=True). HTA counts such rows as work.
  bool cuda_sync_rows = false;
};

struct AggregateOptions {
  KeyAveragesOptions key_averages;
  bool step_rows = false;  // also for a recording that was not asked to count steps
  bool cuda_sync_rows = false;
  bool stacks = true;  // false: `stacks` and `span_counts` are left empty, which saves time
  bool sums_all_steps = false;
  std::string spill_directory;  // for data that does not fit in memory; empty = /tmp
};

Aggregates Aggregate(const Timeline& timeline, const AggregateOptions& options);

}  // namespace proftrace
