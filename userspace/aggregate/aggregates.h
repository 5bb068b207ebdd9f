// Everything that exporters show beside the spans themselves, computed once for all of them.
#pragma once

#include <string>
#include <vector>

#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/key_averages.h"
#include "userspace/aggregate/module_times.h"
#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct Aggregates {
  KeyAverages key_averages;
  FoldedStacks stacks;
  std::vector<DeviceIdle> device_idle;  // empty where no GPU agent recorded
  SpanCounts span_counts;
  Steps steps;
  StepRows step_rows;      // none unless asked for
  PythonRows python_rows;  // none where no stacks were recorded
  ModuleSums modules;      // likewise
};

struct AggregateOptions {
  KeyAveragesOptions key_averages;
  bool step_rows = false;       // also of a recording that was not asked to count steps
  std::string spill_directory;  // for what does not fit in memory; empty = /tmp
};

Aggregates Aggregate(const Timeline& timeline, const AggregateOptions& options);

}  // namespace proftrace
