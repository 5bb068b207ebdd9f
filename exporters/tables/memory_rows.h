// The rows and columns of the table `memory`: one row a process, device and step, and one for the
// recording as a whole.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>

#include "exporters/tables/column.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct MemoryRow {
  uint32_t pid = 0;
  std::string device;
  std::optional<int64_t> step;
  int64_t start_ns = 0;
  std::optional<int64_t> end_ns;
  uint64_t allocations = 0;
  uint64_t frees = 0;
  int64_t allocated_bytes = 0;
  int64_t freed_bytes = 0;
  int64_t begin_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t end_bytes = 0;
};

template <typename Visit>
void ForEachCell(const MemoryRow& row, Visit&& visit) {
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"device", "`cpu`, `cuda:0`."}, row.device);
  visit(Column{"step", "The step's number; empty: the recording as a whole."}, row.step);
  visit(Column{"start_ns", "When it began (Unix time)."}, row.start_ns);
  visit(Column{"end_ns", "When it ended; empty where the recorder was killed."}, row.end_ns);
  visit(Column{"allocations", "How often memory was allocated."}, row.allocations);
  visit(Column{"frees", "How often it was freed."}, row.frees);
  visit(Column{"allocated_bytes", "All that was allocated."}, row.allocated_bytes);
  visit(Column{"freed_bytes", "All that was freed."}, row.freed_bytes);
  visit(Column{"begin_bytes",
               "What was allocated when it began. CPU memory counts from the begin of the "
               "recording on, and may be below 0."},
        row.begin_bytes);
  visit(Column{"peak_bytes", "The most that was allocated in it."}, row.peak_bytes);
  visit(Column{"end_bytes", "What was allocated when it ended."}, row.end_bytes);
}

// Gives the rows to `add`, until it returns false: none where memory was not recorded
// (`--profile-memory`), or is not known after a loss.
void ForEachMemoryRow(const Timeline& timeline, const Steps& steps,
                      absl::FunctionRef<bool(const MemoryRow&)> add);

}  // namespace proftrace
