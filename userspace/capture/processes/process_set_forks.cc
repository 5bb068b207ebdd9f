#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/processes/process_set.h"
#include "userspace/capture/targets/target_info.h"

// How a ProcessSet follows forks, execs and ends: notes them when the kernel reports them, and acts
// on them later, on the follower's thread.

namespace proftrace {

void ProcessSet::OnReady(int64_t window_start_ns) {
  {
    const std::lock_guard lock(mutex_);
    unprobed_forks_.BeginWindow(window_start_ns);
    late_forks_.BeginWindow(window_start_ns);
    late_loads_.BeginWindow(window_start_ns);
  }
  schemas_.Start();
}

void ProcessSet::OnWindowEnd(int64_t end_ns) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.EndWindow(end_ns);
}

void ProcessSet::OnFork(Pid parent, Pid child, int64_t time_ns, bool shares_memory) {
  closer_.Postpone();
  const std::lock_guard lock(mutex_);
  if (!shares_memory) {
    unprobed_forks_.OnFork(parent, child, time_ns, processes_.contains(Raw(parent)));
  }
  tasks_.push_back(Task{TaskKind::kFork, child, parent, time_ns});
  changed_.notify_all();
}

void ProcessSet::OnExec(Pid pid) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnExec(pid);
  tasks_.push_back(Task{TaskKind::kExec, pid, Pid{}, 0});
  changed_.notify_all();
}

void ProcessSet::OnExit(Pid pid, int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnExit(pid, time_ns);
  EndAwaiting(pid);
  refused_.erase(Raw(pid));
  // A child that has ended already needs no probes, because many short-lived children must not hold
  // the others up.
  for (Task& task : tasks_) task.is_over |= task.pid == pid;
  tasks_.push_back(Task{TaskKind::kExit, pid, Pid{}, 0});
  changed_.notify_all();
}

void ProcessSet::FollowFork(const Task& task) {
  Process child;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(task.parent));
    if (it == processes_.end()) {
      // The parent has no PyTorch yet; the child may load it.
      if (!task.is_over) {
        awaited_.try_emplace(Raw(task.pid), Awaited{std::make_shared<LoadingProcess>(reader_)});
      }
      return;
    }
    child.image = it->second.image;
    child.plan_id = it->second.plan_id;
    child.plan = it->second.plan;
    if (processes_.contains(Raw(task.pid)))
      return;  // the child was found before its fork was
               // reported
    // The child is entered here whether it lives or not, because it may have children of its own.
    Process& entry = processes_[Raw(task.pid)];
    entry.image = child.image;
    entry.plan_id = child.plan_id;
    entry.plan = child.plan;
  }
  // A child of vfork() runs in its parent's memory until it execs: the parent's probes are its own.
  if (task.is_over || SharesMemory(task.parent, task.pid)) return;
  if (!HasFiles(task.pid, *child.plan)) {
    // The child has ended, runs another program by now, or has other files in the place of its
    // parent's. The process is treated like a new one.
    (void)Forget(task.pid);
    if (HasProgram(task.pid)) Await(task.pid);
    return;
  }
  const absl::Status status = AttachWithPlan(task.pid, child.plan, child.plan_id, child.image,
                                             {/*followed=*/true, task.time_ns});
  const int64_t live_ns = MonotonicNs();
  if (status.ok() && on_follow_) on_follow_(task.pid, live_ns - task.time_ns);
  if (status.ok()) {
    on_change_(task.pid, task.parent);
    const std::lock_guard lock(mutex_);
    late_forks_.Add(task.pid, task.time_ns, live_ns);
    return;
  }
  // The child may also have ended, or changed its files, during the attach.
  if (HasFiles(task.pid, *child.plan) && ExitCodeOf(status) != ExitCode::kNoTarget) {
    Refuse(task.pid, status);
  }
}

void ProcessSet::FollowExec(Pid pid) {
  // The old program is gone, and the code with its probes.
  (void)Forget(pid);
  {
    const std::lock_guard lock(mutex_);
    unprobed_forks_.OnExecFollowed(pid);
  }
  Await(pid);
}

}  // namespace proftrace
