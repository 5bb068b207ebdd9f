#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/process_plan.h"
#include "userspace/capture/process_set.h"
#include "userspace/capture/target_info.h"

// How a ProcessSet follows forks, execs and ends: notes them when the kernel reports them, and acts
// on them later, on the follower's thread.

namespace proftrace {

void ProcessSet::OnReady(int64_t window_start_ns) {
  known_.BeginWindow(window_start_ns);
  gaps_.BeginWindow(window_start_ns);
  schemas_.Start();
}

void ProcessSet::OnWindowEnd(int64_t end_ns) { known_.EndWindow(end_ns); }

void ProcessSet::OnFork(Pid parent, Pid child, int64_t time_ns, bool shares_memory) {
  closer_.Postpone();
  if (!shares_memory) known_.OnFork(parent, child, time_ns);
  const std::lock_guard lock(mutex_);
  tasks_.push_back(Task{TaskKind::kFork, child, parent, time_ns});
  changed_.notify_all();
}

void ProcessSet::OnExec(Pid pid) {
  known_.OnExec(pid);
  const std::lock_guard lock(mutex_);
  tasks_.push_back(Task{TaskKind::kExec, pid, Pid{}, 0});
  changed_.notify_all();
}

void ProcessSet::OnExit(Pid pid, int64_t time_ns) {
  known_.OnExit(pid, time_ns);
  const std::lock_guard lock(mutex_);
  // A child that has ended already needs no probes, because many short-lived children must not hold
  // the others up.
  for (Task& task : tasks_) task.is_over |= task.pid == pid;
  tasks_.push_back(Task{TaskKind::kExit, pid, Pid{}, 0});
  changed_.notify_all();
}

void ProcessSet::FollowFork(const Task& task) {
  const std::optional<PlannedImage> child = known_.EnterFork(task.parent, task.pid, task.is_over);
  if (!child) return;
  // A child of vfork() runs in its parent's memory until it execs: the parent's probes are its own.
  if (task.is_over || SharesMemory(task.parent, task.pid)) return;
  if (!HasFiles(task.pid, *child->plan)) {
    // The child has ended, runs another program by now, or has other files in the place of its
    // parent's. The process is treated like a new one.
    (void)Forget(task.pid);
    if (HasProgram(task.pid)) known_.Await(task.pid);
    return;
  }
  const absl::Status status = AttachWithPlan(task.pid, *child, {/*followed=*/true, task.time_ns});
  const int64_t live_ns = MonotonicNs();
  if (status.ok() && callbacks_.on_follow) callbacks_.on_follow(task.pid, live_ns - task.time_ns);
  if (status.ok()) {
    callbacks_.on_change(task.pid, task.parent);
    gaps_.AddLateFork(task.pid, task.time_ns, live_ns);
    return;
  }
  // The child may also have ended, or changed its files, during the attach.
  if (HasFiles(task.pid, *child->plan) && ExitCodeOf(status) != ExitCode::kNoTarget) {
    Refuse(task.pid, status);
  }
}

void ProcessSet::FollowExec(Pid pid) {
  // The old program is gone, and the code with its probes.
  (void)Forget(pid);
  known_.OnExecFollowed(pid);
  known_.Await(pid);
}

}  // namespace proftrace
