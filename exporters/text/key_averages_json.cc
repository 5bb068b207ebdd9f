#include "exporters/text/key_averages_json.h"

#include <string>
#include <utility>

#include "exporters/sinks/escape.h"

namespace proftrace {

OrderedJson KeyAverageJson(const KeyAverage& row, const KeyAverages& averages) {
  const double total_us = InMicroseconds(averages.self_cpu_time_total_ns);
  const auto percent = [&](int64_t ns) {
    return total_us == 0 ? OrderedJson(nullptr)
                         : OrderedJson(InMicroseconds(ns) * 100.0 / total_us);
  };
  OrderedJson entry = {{"name", ToValidUtf8(row.name)}};
  if (averages.grouped_by_overload_name) entry["overload_name"] = ToValidUtf8(row.overload_name);
  if (averages.grouped_by_input_shape) entry["input_shapes"] = row.input_shapes;
  if (averages.grouped_by_stack_n > 0) {
    entry["stack"] = OrderedJson::array();
    for (const std::string& frame : row.stack) entry["stack"].push_back(ToValidUtf8(frame));
  }
  entry["count"] = row.count;
  entry["self_cpu_time_total_us"] = InMicroseconds(row.self_cpu_time_total_ns);
  entry["cpu_time_total_us"] = InMicroseconds(row.cpu_time_total_ns);
  entry["cpu_time_us"] = row.cpu_time_us();
  entry["self_cpu_percent"] = percent(row.self_cpu_time_total_ns);
  entry["cpu_percent"] = row.is_async ? OrderedJson(0) : percent(row.cpu_time_total_ns);
  entry["is_async"] = row.is_async;
  if (averages.has_device_records) {
    const double total_device_us = InMicroseconds(averages.self_device_time_total_ns);
    entry["device_type"] = row.is_device ? "CUDA" : "CPU";
    entry["self_device_time_total_us"] = InMicroseconds(row.self_device_time_total_ns);
    entry["device_time_total_us"] = InMicroseconds(row.device_time_total_ns);
    entry["device_time_us"] = row.device_time_us();
    entry["self_device_percent"] =
        total_device_us == 0
            ? OrderedJson(nullptr)
            : OrderedJson(InMicroseconds(row.self_device_time_total_ns) * 100.0 / total_device_us);
  }
  if (averages.has_memory) {
    entry["self_cpu_memory_bytes"] = row.memory.self_cpu_bytes;
    entry["cpu_memory_bytes"] = row.memory.cpu_bytes;
    entry["self_device_memory_bytes"] = row.memory.self_device_bytes;
    entry["device_memory_bytes"] = row.memory.device_bytes;
  }
  if (averages.has_flops) entry["flops"] = row.flops;
  if (!row.system.is_unknown && !row.is_device) {
    if (averages.system.sched) {
      entry["self_on_cpu_us"] = InMicroseconds(row.self_on_cpu_ns());
      entry["self_off_cpu_us"] = InMicroseconds(row.system.self_off_cpu_ns);
    }
    if (averages.system.calls) entry["self_syscalls"] = row.system.self_calls;
    if (averages.system.faults) entry["self_page_faults"] = row.system.self_faults;
  }
  return entry;
}

OrderedJson ProcessesJson(const KeyAverages& averages) {
  OrderedJson pids = OrderedJson::array();
  for (const Pid pid : averages.processes) pids.push_back(Raw(pid));
  return pids;
}

}  // namespace proftrace
