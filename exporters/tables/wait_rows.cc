#include "exporters/tables/wait_rows.h"

#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/wait_sums.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

std::string NameOfCall(const WaitPlace& place) {
  return place.call < 0 ? "" : SystemCallName(place.abi, static_cast<uint64_t>(place.call));
}

std::string FrameOf(const Timeline& timeline, const WaitPlace& place) {
  return place.stack == kNoStack ? "" : PythonLineText(timeline, place.stack);
}

void SetWaker(const Timeline& timeline, const WaitSum& wait, WaitRow* row) {
  if (Raw(wait.waker_tid) == 0) return;
  row->waker_pid = Raw(wait.waker_pid);
  row->waker_tid = Raw(wait.waker_tid);
  if (!wait.waker_is_known) return;
  row->waker_thread_name = timeline.thread(wait.waker_thread).name;
  row->waker_path = PathText(timeline, wait.waker.path);
  row->waker_python = FrameOf(timeline, wait.waker);
  row->waker_syscall = NameOfCall(wait.waker);
}

}  // namespace

void ForEachWaitRow(const Timeline& timeline, absl::FunctionRef<bool(const WaitRow&)> add) {
  if (!timeline.has_sched()) return;
  for (const WaitSum& wait : SumWaits(timeline)) {
    const Thread& thread = timeline.thread(wait.thread);
    WaitRow row;
    row.pid = Raw(thread.pid);
    row.tid = Raw(thread.tid);
    row.thread_name = thread.name;
    row.reason = WaitReasonName(wait.reason);
    row.path = PathText(timeline, wait.place.path);
    row.python = FrameOf(timeline, wait.place);
    row.syscall = NameOfCall(wait.place);
    SetWaker(timeline, wait, &row);
    row.count = wait.count;
    row.unfinished = wait.unfinished;
    row.blocked_ns = wait.blocked_ns;
    row.longest_ns = wait.longest_ns;
    if (!add(row)) return;
  }
}

}  // namespace proftrace
