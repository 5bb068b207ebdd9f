// Everything that exporters show beside the spans themselves, computed once for all of them.
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
  std::optional<TimeBreakdown> time;  // of the thread that drives the job; with the scheduler
  std::vector<DataWait> data_waits;   // of that thread
  Steps steps;
  StepRows step_rows;      // none unless asked for
  PythonRows python_rows;  // none where no stacks were recorded
  ModuleSums modules;      // none where no stacks were recorded
  // With AggregateOptions::sums_all_steps: the steps of the main process as one window, from the
  // begin of the first to the end of the last; where there are none, the whole recording.
  // key_averages.by_window is of it, and so are these, of `modules`.
  StepWindows all_steps;
  std::vector<WindowShare> module_shares;
  // Whether traces have rows of waits for a GPU and of its events, as torch's with
  // _ExperimentalConfig(enable_cuda_sync_events=True): HTA takes them for work.
  bool cuda_sync_rows = false;
};

struct AggregateOptions {
  KeyAveragesOptions key_averages;
  bool step_rows = false;  // also of a recording that was not asked to count steps
  bool cuda_sync_rows = false;
  bool stacks = true;  // false: `stacks` and `span_counts` are left empty, which saves time
  bool sums_all_steps = false;
  std::string spill_directory;  // for what does not fit in memory; empty = /tmp
};

Aggregates Aggregate(const Timeline& timeline, const AggregateOptions& options);

}  // namespace proftrace
