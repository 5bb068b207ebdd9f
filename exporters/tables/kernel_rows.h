// The rows and columns of the table `kernels`: one row a kind of work of a GPU, by its name.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct KernelRow {
  uint32_t pid = 0;
  uint32_t device = 0;
  std::string_view name;
  std::string_view kind;
  bool is_communication = false;
  uint64_t calls = 0;
  int64_t total_ns = 0;
  int64_t median_ns = 0;
  int64_t p99_ns = 0;
  int64_t least_ns = 0;
  int64_t longest_ns = 0;
  int64_t bytes = 0;
};

template <typename Visit>
void ForEachCell(const KernelRow& row, Visit&& visit) {
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"device", "The GPU's number in that process."}, row.device);
  visit(Column{"name", "The kernel's name, or what was copied or set."}, row.name);
  visit(Column{"kind", "`kernel`, `gpu_memcpy`, `gpu_memset`, …: Kineto's category."}, row.kind);
  visit(Column{"is_communication", "1 for kernels of NCCL and RCCL; else 0."},
        row.is_communication);
  visit(Column{"calls", "How often it ran."}, row.calls);
  visit(Column{"total_ns", "How long, all of them together."}, row.total_ns);
  visit(Column{"median_ns", "The middle one of the durations; of an even number the lower one."},
        row.median_ns);
  visit(Column{"p99_ns", "The least duration that 99 of 100 do not exceed."}, row.p99_ns);
  visit(Column{"least_ns", "The shortest."}, row.least_ns);
  visit(Column{"longest_ns", "The longest."}, row.longest_ns);
  visit(Column{"bytes", "What copies and sets moved."}, row.bytes);
}

// Fills in the durations of `row` by those of one kind of work. `durations_ns` must not be empty.
void SetDurations(std::vector<int64_t> durations_ns, KernelRow* row);

// Gives the rows to `add`, until it returns false. Memory: a word for each piece of work.
void ForEachKernelRow(const Timeline& timeline, absl::FunctionRef<bool(const KernelRow&)> add);

}  // namespace proftrace
