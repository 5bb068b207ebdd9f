// Visits all tables of a recording, for outputs with all tables in one file or folder.
#pragma once

#include <absl/functional/function_ref.h>

#include <string_view>

#include "exporters/tables/cell_form.h"
#include "exporters/tables/data_wait_rows.h"
#include "exporters/tables/event_rows.h"
#include "exporters/tables/gpu_idle_rows.h"
#include "exporters/tables/key_average_rows.h"
#include "exporters/tables/module_rows.h"
#include "exporters/tables/sample_rows.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

template <typename Row>
struct Table {
  using Add = absl::FunctionRef<bool(const Row&)>;

  std::string_view name;
  absl::FunctionRef<void(Add)> rows;  // calls a function with each row, until that returns false
};

// Calls `visit` with the Table of each kind of rows that the recording has. Texts are in `form`.
template <typename Visit>
void ForEachTable(const Timeline& timeline, const Aggregates& aggregates, CellForm form,
                  Visit&& visit) {
  using Events = Table<EventRow>;
  visit(Events{"events", [&](Events::Add add) {
                 ForEachEventRow(timeline, aggregates.steps, aggregates.step_rows, form, add);
               }});
  using KeyAverageTable = Table<KeyAverageRow>;
  visit(KeyAverageTable{"key_averages", [&](KeyAverageTable::Add add) {
                          ForEachKeyAverageRow(aggregates.key_averages, add);
                        }});
  if (!timeline.python_modules().empty() && aggregates.python_rows.status().ok()) {
    using Modules = Table<ModuleRow>;
    visit(Modules{"modules",
                  [&](Modules::Add add) { ForEachModuleRow(timeline, aggregates.modules, add); }});
  }
  if (!timeline.samples().empty()) {
    using SampleTable = Table<SampleRow>;
    visit(SampleTable{"samples", [&](SampleTable::Add add) {
                        ForEachSampleRow(timeline, aggregates.step_rows, form, add);
                      }});
  }
  if (timeline.has_device_records()) {
    using GpuIdle = Table<GpuIdleRow>;
    visit(GpuIdle{"gpu_idle", [&](GpuIdle::Add add) {
                    ForEachGpuIdleRow(timeline, aggregates.device_idle, add);
                  }});
  }
  if (timeline.has_sched()) {
    using DataWaits = Table<DataWaitRow>;
    visit(DataWaits{"data_waits", [&](DataWaits::Add add) {
                      ForEachDataWaitRow(timeline, aggregates.data_waits, add);
                    }});
  }
}

}  // namespace proftrace
