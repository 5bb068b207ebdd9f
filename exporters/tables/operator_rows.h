// The rows and columns of the table `operators`: one row an operator, autograd row or annotation,
// as the key averages have them.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/aggregate/key_averages.h"

namespace proftrace {

struct OperatorRow {
  std::optional<uint32_t> pid;
  std::string_view name;
  bool is_annotation = false;
  uint64_t calls = 0;
  int64_t self_ns = 0;
  int64_t total_ns = 0;
  std::optional<int64_t> on_cpu_ns;
  std::optional<int64_t> off_cpu_ns;
  std::optional<int64_t> device_ns;
  std::optional<int64_t> self_device_ns;
  std::optional<int64_t> cpu_bytes;
  std::optional<int64_t> device_bytes;
};

template <typename Visit>
void ForEachCell(const OperatorRow& row, Visit&& visit) {
  visit(Column{"pid", "The process; empty where the rows are of several."}, row.pid);
  visit(Column{"name", "The row's name."}, row.name);
  visit(Column{"is_annotation", "1 for annotations (`record_function`); else 0."},
        row.is_annotation);
  visit(Column{"calls", "How often it was called."}, row.calls);
  visit(Column{"self_ns", "Its time without what it called."}, row.self_ns);
  visit(Column{"total_ns", "Its time with what it called."}, row.total_ns);
  visit(Column{"on_cpu_ns", "Of `self_ns`, on a CPU (`--activities sched`)."}, row.on_cpu_ns);
  visit(Column{"off_cpu_ns", "Of `self_ns`, off it (`--activities sched`)."}, row.off_cpu_ns);
  visit(Column{"device_ns", "The work of GPUs that it and what it called asked for."},
        row.device_ns);
  visit(Column{"self_device_ns", "The work of GPUs that it asked for itself."}, row.self_device_ns);
  visit(Column{"cpu_bytes",
               "CPU memory that it and what it called allocated, less what they freed "
               "(`--profile-memory`)."},
        row.cpu_bytes);
  visit(Column{"device_bytes", "The same of a GPU's memory."}, row.device_bytes);
}

// Gives the rows to `add`, until it returns false.
void ForEachOperatorRow(const KeyAverages& averages,
                        absl::FunctionRef<bool(const OperatorRow&)> add);

}  // namespace proftrace
