#include "exporters/tables/data_wait_rows.h"

#include "exporters/args/system_args.h"
#include "userspace/aggregate/system_text.h"

namespace proftrace {
namespace {

void SetCall(const Timeline& timeline, const DataWait& wait, DataWaitRow* row) {
  if (wait.longest_call == kNoSystemEvent) return;
  const SystemEvent& call = timeline.system_event(wait.longest_call);
  row->call = SystemEventName(call);
  const SystemPaths* paths = timeline.system_tables().Paths(call.call.paths);
  const SystemFile* file = timeline.system_tables().File(call.file);
  if (file != nullptr) {
    row->path = file->name;
  } else if (paths != nullptr) {
    row->path = paths->first;
  }
  row->call_ns = wait.longest_call_ns;
  row->call_args = "{" + SystemArgs(timeline.system_tables(), call) + "}";
}

void SetWorker(const DataWait& wait, DataWaitRow* row) {
  row->worker_pid = Raw(wait.worker);
  row->waker_tid = Raw(wait.waker);
  row->worker_io_ns = wait.worker_io_ns;
  row->worker_off_ns = wait.worker_off_ns;
  row->worker_bytes = wait.worker_bytes;
}

}  // namespace

void ForEachDataWaitRow(const Timeline& timeline, const std::vector<DataWait>& waits,
                        absl::FunctionRef<bool(const DataWaitRow&)> add) {
  for (const DataWait& wait : waits) {
    const Span& span = timeline.span(wait.span);
    const Thread& thread = timeline.thread(span.thread);
    DataWaitRow row;
    if (wait.step >= 0) row.step = wait.step;
    row.start_ns = timeline.ToUnixNs(span.start_ns);
    row.duration_ns = span.duration_ns;
    row.blocked_ns = wait.blocked_ns;
    row.pid = Raw(thread.pid);
    row.tid = Raw(thread.tid);
    if (Raw(wait.worker) != 0) {
      SetWorker(wait, &row);
      SetCall(timeline, wait, &row);
    }
    if (!add(row)) return;
  }
}

}  // namespace proftrace
