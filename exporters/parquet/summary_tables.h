// Visits the tables of a recording that queries over many recordings use: sums, and events that
// happen only a few times in a step.
#pragma once

#include <vector>

#include "exporters/tables/collective_call_rows.h"
#include "exporters/tables/collective_calls.h"
#include "exporters/tables/data_wait_rows.h"
#include "exporters/tables/gpu_idle_rows.h"
#include "exporters/tables/io_rows.h"
#include "exporters/tables/kernel_rows.h"
#include "exporters/tables/loss_rows.h"
#include "exporters/tables/memory_rows.h"
#include "exporters/tables/operator_rows.h"
#include "exporters/tables/process_rows.h"
#include "exporters/tables/step_rows.h"
#include "exporters/tables/wait_rows.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Calls tables.Add<Row>(name, rows) for each table; rows(add) gives the rows to `add`.
template <typename Tables>
void AddSummaryTables(const Timeline& timeline, const Aggregates& aggregates,
                      const std::vector<ProcessCalls>& calls, const std::vector<StepRow>& steps,
                      Tables& tables) {
  tables.template Add<ProcessRow>("processes", [&](auto add) { ForEachProcessRow(timeline, add); });
  tables.template Add<StepRow>("steps", [&](auto add) {
    for (const StepRow& row : steps) {
      if (!add(row)) return;
    }
  });
  tables.template Add<CollectiveCallRow>("collectives", [&](auto add) {
    ForEachCollectiveCallRow(timeline, aggregates.steps, calls, add);
  });
  tables.template Add<OperatorRow>(
      "operators", [&](auto add) { ForEachOperatorRow(aggregates.key_averages, add); });
  tables.template Add<KernelRow>("kernels", [&](auto add) { ForEachKernelRow(timeline, add); });
  tables.template Add<MemoryRow>(
      "memory", [&](auto add) { ForEachMemoryRow(timeline, aggregates.steps, add); });
  tables.template Add<GpuIdleRow>(
      "gpu_idle", [&](auto add) { ForEachGpuIdleRow(timeline, aggregates.device_idle, add); });
  tables.template Add<DataWaitRow>(
      "data_waits", [&](auto add) { ForEachDataWaitRow(timeline, aggregates.data_waits, add); });
  tables.template Add<IoRow>("io", [&](auto add) { ForEachIoRow(timeline, add); });
  tables.template Add<WaitRow>("waits", [&](auto add) { ForEachWaitRow(timeline, add); });
  tables.template Add<LossRow>("losses", [&](auto add) { ForEachLossRow(timeline, add); });
}

}  // namespace proftrace
