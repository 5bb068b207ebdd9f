// The rows and columns of the table `data_waits`: one row a wait for a batch of torch's DataLoader,
// with what its worker did.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/tables/column.h"
#include "userspace/aggregate/data_waits.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct DataWaitRow {
  std::optional<int64_t> step;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int64_t blocked_ns = 0;
  uint32_t pid = 0;
  uint32_t tid = 0;
  std::optional<uint32_t> worker_pid;
  std::optional<uint32_t> waker_tid;
  std::optional<int64_t> worker_io_ns;
  std::optional<int64_t> worker_off_ns;
  std::optional<int64_t> worker_bytes;
  std::string call;
  std::string_view path;
  std::optional<int64_t> call_ns;
  std::string call_args;
};

template <typename Visit>
void ForEachCell(const DataWaitRow& row, Visit&& visit) {
  visit(Column{"step", "The number of the job's step."}, row.step);
  visit(Column{"start_ns", "When the job asked for the batch (Unix time)."}, row.start_ns);
  visit(Column{"duration_ns", "How long the call took."}, row.duration_ns);
  visit(Column{"blocked_ns", "How much of that the thread waited, off the CPU, for a worker."},
        row.blocked_ns);
  visit(Column{"pid", "The process that asked."}, row.pid);
  visit(Column{"tid", "Its thread."}, row.tid);
  visit(
      Column{"worker_pid", "The worker whose message ended the wait; empty where there was none."},
      row.worker_pid);
  visit(Column{"waker_tid", "The thread of the worker that sent the message."}, row.waker_tid);
  visit(Column{"worker_io_ns", "Time that this worker spent in I/O while it made the batch."},
        row.worker_io_ns);
  visit(Column{"worker_off_ns", "Time that it was otherwise off the CPU."}, row.worker_off_ns);
  visit(Column{"worker_bytes", "Bytes that it read."}, row.worker_bytes);
  visit(Column{"call", "The system call that took it longest."}, row.call);
  visit(Column{"path", "The file of that call."}, row.path);
  visit(Column{"call_ns", "How long that call took."}, row.call_ns);
  visit(Column{"call_args", "Its arguments, as JSON."}, row.call_args);
}

// Gives the rows to `add`, until it returns false.
void ForEachDataWaitRow(const Timeline& timeline, const std::vector<DataWait>& waits,
                        absl::FunctionRef<bool(const DataWaitRow&)> add);

}  // namespace proftrace
