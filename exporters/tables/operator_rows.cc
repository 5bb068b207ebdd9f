#include "exporters/tables/operator_rows.h"

namespace proftrace {

void ForEachOperatorRow(const KeyAverages& averages,
                        absl::FunctionRef<bool(const OperatorRow&)> add) {
  for (const KeyAverage& average : averages.rows) {
    if (average.is_device) continue;
    OperatorRow row;
    if (averages.processes.size() == 1) row.pid = Raw(averages.processes.front());
    row.name = average.name;
    row.is_annotation = average.is_user_annotation;
    row.calls = average.count;
    row.self_ns = average.self_cpu_time_total_ns;
    row.total_ns = average.cpu_time_total_ns;
    if (averages.system.sched && !average.system.is_unknown) {
      row.on_cpu_ns = average.self_on_cpu_ns();
      row.off_cpu_ns = average.system.self_off_cpu_ns;
    }
    if (averages.has_device_records) {
      row.device_ns = average.device_time_total_ns;
      row.self_device_ns = average.self_device_time_total_ns;
    }
    if (averages.has_memory) {
      row.cpu_bytes = average.memory.cpu_bytes;
      row.device_bytes = average.memory.device_bytes;
    }
    if (!add(row)) return;
  }
}

}  // namespace proftrace
