#include "exporters/tables/key_average_rows.h"

namespace proftrace {
namespace {

std::optional<Decimal> Percent(int64_t ns, int64_t total_ns) {
  if (total_ns == 0) return std::nullopt;
  return Decimal{static_cast<double>(ns) * 100.0 / static_cast<double>(total_ns), 4};
}

// Returns the stack as in events.csv, with the innermost frame last.
std::string Stack(const KeyAverage& row) {
  std::string text;
  for (size_t i = row.stack.size(); i-- > 0;) text += row.stack[i] + (i > 0 ? ";" : "");
  return text;
}

void SetSystem(const KeyAverage& average, const SystemActivities& recorded, KeyAverageRow* row) {
  if (average.system.is_unknown || average.is_device) return;
  if (recorded.sched) {
    row->self_on_cpu_us = NsAsUs{average.self_on_cpu_ns()};
    row->self_off_cpu_us = NsAsUs{average.system.self_off_cpu_ns};
  }
  if (recorded.calls) row->self_syscalls = average.system.self_calls;
  if (recorded.faults) row->self_page_faults = average.system.self_faults;
}

KeyAverageRow RowOf(const KeyAverage& average, const KeyAverages& all) {
  KeyAverageRow row;
  row.name = average.name;
  row.overload_name = average.overload_name;
  row.count = average.count;
  row.self_cpu_time_total_us = {average.self_cpu_time_total_ns};
  row.cpu_time_total_us = {average.cpu_time_total_ns};
  row.cpu_time_us = {average.cpu_time_us(), 3};
  row.self_cpu_percent = Percent(average.self_cpu_time_total_ns, all.self_cpu_time_total_ns);
  // An async span has no place in the tree and therefore no share: 0, as in torch.
  row.cpu_percent =
      Percent(average.is_async ? 0 : average.cpu_time_total_ns, all.self_cpu_time_total_ns);
  if (all.has_device_records) {
    row.self_device_time_total_us = NsAsUs{average.self_device_time_total_ns};
    row.device_time_total_us = NsAsUs{average.device_time_total_ns};
    row.device_time_us = Decimal{average.device_time_us(), 3};
    row.self_device_percent =
        Percent(average.self_device_time_total_ns, all.self_device_time_total_ns);
  }
  if (all.has_memory) {
    row.self_cpu_memory_bytes = average.memory.self_cpu_bytes;
    row.cpu_memory_bytes = average.memory.cpu_bytes;
    row.self_device_memory_bytes = average.memory.self_device_bytes;
    row.device_memory_bytes = average.memory.device_bytes;
  }
  SetSystem(average, all.system, &row);
  if (all.has_flops) row.flops = average.flops;
  row.device_type = average.is_device ? "CUDA" : "CPU";
  row.is_async = average.is_async;
  row.input_shapes = average.input_shapes;
  row.stack = Stack(average);
  return row;
}

}  // namespace

void ForEachKeyAverageRow(const KeyAverages& averages,
                          absl::FunctionRef<bool(const KeyAverageRow&)> add) {
  for (const KeyAverage& average : averages.rows) {
    if (!add(RowOf(average, averages))) return;
  }
}

}  // namespace proftrace
