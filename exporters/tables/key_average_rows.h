// The rows and columns of the table `key_averages`: one row a key of torch's key_averages().
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/aggregate/key_averages.h"

namespace proftrace {

struct KeyAverageRow {
  std::string_view name;
  std::string_view overload_name;
  uint64_t count = 0;
  NsAsUs self_cpu_time_total_us;
  NsAsUs cpu_time_total_us;
  Decimal cpu_time_us;
  std::optional<Decimal> self_cpu_percent;
  std::optional<Decimal> cpu_percent;
  std::optional<NsAsUs> self_device_time_total_us;
  std::optional<NsAsUs> device_time_total_us;
  std::optional<Decimal> device_time_us;
  std::optional<Decimal> self_device_percent;
  std::optional<int64_t> self_cpu_memory_bytes;
  std::optional<int64_t> cpu_memory_bytes;
  std::optional<int64_t> self_device_memory_bytes;
  std::optional<int64_t> device_memory_bytes;
  std::optional<NsAsUs> self_on_cpu_us;
  std::optional<NsAsUs> self_off_cpu_us;
  std::optional<int64_t> flops;
  std::string_view device_type;
  std::optional<int64_t> node_id;
  bool is_async = false;
  std::string_view input_shapes;
  std::string stack;
  std::optional<int64_t> self_syscalls;
  std::optional<int64_t> self_page_faults;
};

template <typename Visit>
void ForEachCell(const KeyAverageRow& row, Visit&& visit) {
  visit(Column{"name", "The operator, node, annotation or kernel."}, row.name);
  visit(Column{"overload_name", "The overload, with `--group-by-overload-name`."},
        row.overload_name);
  visit(Column{"count", "How many calls."}, row.count);
  visit(Column{"self_cpu_time_total_us", "Time of all calls without the rows directly below them."},
        row.self_cpu_time_total_us);
  visit(Column{"cpu_time_total_us", "Time of all calls."}, row.cpu_time_total_us);
  visit(Column{"cpu_time_us", "The mean of `cpu_time_total_us` over the calls."}, row.cpu_time_us);
  visit(
      Column{"self_cpu_percent", "`self_cpu_time_total_us` as a share of the sum of that column."},
      row.self_cpu_percent);
  visit(
      Column{
          "cpu_percent",
          "`cpu_time_total_us` as a share of the same sum; 0 for asynchronous rows, as in torch."},
      row.cpu_percent);
  visit(Column{"self_device_time_total_us",
               "GPU time of kernels and copies that these calls themselves asked for."},
        row.self_device_time_total_us);
  visit(Column{"device_time_total_us", "GPU time, with that of the rows below."},
        row.device_time_total_us);
  visit(Column{"device_time_us", "The mean of `device_time_total_us` over the calls."},
        row.device_time_us);
  visit(Column{"self_device_percent",
               "`self_device_time_total_us` as a share of the sum of that column."},
        row.self_device_percent);
  visit(
      Column{"self_cpu_memory_bytes", "CPU memory allocated less freed by these calls themselves."},
      row.self_cpu_memory_bytes);
  visit(Column{"cpu_memory_bytes", "CPU memory allocated less freed, with the rows below."},
        row.cpu_memory_bytes);
  visit(Column{"self_device_memory_bytes",
               "GPU memory allocated less freed by these calls themselves."},
        row.self_device_memory_bytes);
  visit(Column{"device_memory_bytes", "GPU memory allocated less freed, with the rows below."},
        row.device_memory_bytes);
  visit(Column{"self_on_cpu_us", "Of the self time: on a CPU."}, row.self_on_cpu_us);
  visit(Column{"self_off_cpu_us", "Of the self time: off the CPU."}, row.self_off_cpu_us);
  visit(Column{"flops", "The sum of torch's estimates."}, row.flops);
  visit(Column{"device_type", "`CPU`, or `CUDA` for rows of a GPU."}, row.device_type);
  visit(Column{"node_id", "Always empty; torch has it for remote profiling."}, row.node_id);
  visit(
      Column{
          "is_async",
          "1 for such rows; else 0. They have no place in the tree and no own time, as in torch."},
      row.is_async);
  visit(Column{"input_shapes", "The shapes of the group, with `--group-by-input-shape`."},
        row.input_shapes);
  visit(Column{"stack",
               "The innermost N frames of the group, with `--group-by-stack-n N`, joined by `;`, "
               "the innermost last."},
        row.stack);
  visit(Column{"self_syscalls", "System calls in the self time."}, row.self_syscalls);
  visit(Column{"self_page_faults", "Page faults in the self time."}, row.self_page_faults);
}

// Gives the rows to `add`, until it returns false.
void ForEachKeyAverageRow(const KeyAverages& averages,
                          absl::FunctionRef<bool(const KeyAverageRow&)> add);

}  // namespace proftrace
