// The rows and columns of the table `waits`: one row for waits that are alike, as `report --waits`
// has them.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct WaitRow {
  uint32_t pid = 0;
  uint32_t tid = 0;
  std::string_view thread_name;
  std::string_view reason;
  std::string path;
  std::string python;
  std::string syscall;
  std::optional<int64_t> waker_pid;
  std::optional<int64_t> waker_tid;
  std::string_view waker_thread_name;
  std::string waker_path;
  std::string waker_python;
  std::string waker_syscall;
  uint64_t count = 0;
  uint64_t unfinished = 0;
  int64_t blocked_ns = 0;
  int64_t longest_ns = 0;
};

template <typename Visit>
void ForEachCell(const WaitRow& row, Visit&& visit) {
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"tid", "The thread that waited."}, row.tid);
  visit(Column{"thread_name", "Its name."}, row.thread_name);
  visit(Column{"reason", "What it waited for, as in [events.csv](columns.md#eventscsv)."},
        row.reason);
  visit(Column{"path", "The rows that it was in, joined by `/`."}, row.path);
  visit(Column{"python", "The innermost Python frame (`--with-stack`)."}, row.python);
  visit(Column{"syscall", "The system call that it was in."}, row.syscall);
  visit(Column{"waker_pid", "The process that woke it; empty where that was no thread."},
        row.waker_pid);
  visit(Column{"waker_tid", "The thread that woke it."}, row.waker_tid);
  visit(Column{"waker_thread_name", "That thread's name."}, row.waker_thread_name);
  visit(Column{"waker_path", "The rows that the waker was in."}, row.waker_path);
  visit(Column{"waker_python", "The waker's innermost Python frame."}, row.waker_python);
  visit(Column{"waker_syscall", "The system call that the waker was in."}, row.waker_syscall);
  visit(Column{"count", "How many waits the row stands for."}, row.count);
  visit(Column{"unfinished", "Of these, how many were not over when the recording ended."},
        row.unfinished);
  visit(Column{"blocked_ns", "Time off the CPU up to the wake-up."}, row.blocked_ns);
  visit(Column{"longest_ns", "The longest of the waits."}, row.longest_ns);
}

// Gives the rows to `add`, until it returns false.
void ForEachWaitRow(const Timeline& timeline, absl::FunctionRef<bool(const WaitRow&)> add);

}  // namespace proftrace
