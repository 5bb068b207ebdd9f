// The rows and columns of the table `io`: one row a file, as `report --by-file` has them.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct IoRow {
  std::string_view file;
  std::string_view kind;
  uint64_t opens = 0;
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t calls = 0;
  uint64_t errors = 0;
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t time_ns = 0;
  std::optional<int64_t> off_cpu_ns;
  int64_t longest_ns = 0;
  uint64_t page_ins = 0;
  int64_t page_in_ns = 0;
};

template <typename Visit>
void ForEachCell(const IoRow& row, Visit&& visit) {
  visit(Column{"file", "The file, as the job named it."}, row.file);
  visit(Column{"kind",
               "`file`, `directory`, `device`, `pipe`, `socket`, `anonymous`; empty where it is "
               "not known."},
        row.kind);
  visit(Column{"opens", "Calls that opened it."}, row.opens);
  visit(Column{"reads", "Calls that read from it."}, row.reads);
  visit(Column{"writes", "Calls that wrote to it."}, row.writes);
  visit(Column{"calls", "All calls that do I/O with it, with requests of io_uring."}, row.calls);
  visit(Column{"errors", "Of these, how many failed."}, row.errors);
  visit(Column{"bytes_read", "Bytes that were read."}, row.bytes_read);
  visit(Column{"bytes_written", "Bytes that were written."}, row.bytes_written);
  visit(Column{"time_ns", "Time in the calls."}, row.time_ns);
  visit(Column{"off_cpu_ns", "Of that, off the CPU (`--activities sched`)."}, row.off_cpu_ns);
  visit(Column{"longest_ns", "The longest call."}, row.longest_ns);
  visit(Column{"page_ins", "Page faults that read from it."}, row.page_ins);
  visit(Column{"page_in_ns", "Time of these."}, row.page_in_ns);
}

// Gives the rows to `add`, until it returns false.
void ForEachIoRow(const Timeline& timeline, absl::FunctionRef<bool(const IoRow&)> add);

}  // namespace proftrace
