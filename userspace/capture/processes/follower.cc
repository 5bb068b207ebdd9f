#include "userspace/capture/processes/follower.h"

#include <chrono>
#include <optional>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/targets/target_info.h"

namespace proftrace {
namespace {

constexpr std::chrono::milliseconds kAwaitInterval(50);
constexpr std::chrono::milliseconds kAwaitOwnInterval(5);
// How many looks for ended processes follow a lost record of an end: a process is there until its
// parent has waited for it.
constexpr uint32_t kLooksForEnded = 200;

}  // namespace

Follower::Follower(SharedParts* shared, Attacher* attacher, AwaitedProcesses* awaited,
                   LateArrivals* late, const ProcessCallbacks* callbacks)
    : shared_(shared), attacher_(attacher), awaited_(awaited), late_(late), callbacks_(callbacks) {
  thread_ = std::thread([this] { Run(); });
}

void Follower::Stop() {
  {
    const std::lock_guard lock(mutex_);
    shared_->stop = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Follower::Add(const Task& task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(task);
  changed_.notify_all();
}

void Follower::OnFork(Pid parent, Pid child, int64_t time_ns, bool shares_memory) {
  shared_->closer.Postpone();
  if (!shares_memory) shared_->known.OnFork(parent, child, time_ns);
  Add(Task{TaskKind::kFork, child, parent, time_ns});
}

void Follower::OnExec(Pid pid) {
  shared_->known.OnExec(pid);
  Add(Task{TaskKind::kExec, pid});
}

void Follower::OnExit(Pid pid, int64_t time_ns) {
  shared_->known.OnExit(pid, time_ns);
  const std::lock_guard lock(mutex_);
  // A child that has ended already needs no probes, because many short-lived children must not hold
  // the others up.
  for (Task& task : tasks_) task.is_over |= task.pid == pid;
  tasks_.push_back(Task{TaskKind::kExit, pid});
  changed_.notify_all();
}

void Follower::RemoveProbes(Pid pid, RemovedProbes removed) {
  if (shared_->known.AskRemoval(pid, std::move(removed))) Add(Task{TaskKind::kRemoveProbes, pid});
}

bool Follower::HasTask() {
  const std::lock_guard lock(mutex_);
  return shared_->stop || !tasks_.empty();
}

void Follower::Run() {
  std::unique_lock lock(mutex_);
  int64_t next_look_ns = 0;
  while (!shared_->stop) {
    const auto interval = awaited_->is_urgent() ? kAwaitOwnInterval : kAwaitInterval;
    changed_.wait_for(lock, interval, [this] { return shared_->stop || !tasks_.empty(); });
    if (shared_->stop) break;
    // Looks are made also while a job forks all the time.
    if (tasks_.empty() || MonotonicNs() >= next_look_ns) {
      lock.unlock();
      Look();
      next_look_ns =
          MonotonicNs() + std::chrono::duration_cast<std::chrono::nanoseconds>(interval).count();
      lock.lock();
      if (shared_->stop || tasks_.empty()) continue;
    }
    const Task task = tasks_.front();
    tasks_.pop_front();
    lock.unlock();
    Follow(task);
    lock.lock();
  }
}

void Follower::Look() {
  ForgetEnded();
  // Forks come first.
  awaited_->Look([this] { return HasTask(); });
  late_->Look();
}

void Follower::Follow(const Task& task) {
  switch (task.kind) {
    case TaskKind::kFork:
      FollowFork(task);
      break;
    case TaskKind::kExec:
      FollowExec(task.pid);
      break;
    case TaskKind::kExit:
      shared_->closer.Close(attacher_->Forget(task.pid));
      break;
    case TaskKind::kRemoveProbes:
      attacher_->RemoveProbes(task.pid);
      break;
  }
}

void Follower::FollowFork(const Task& task) {
  const std::optional<PlannedImage> child =
      shared_->known.EnterFork(task.parent, task.pid, task.is_over);
  if (!child) return;
  // A child of vfork() runs in its parent's memory until it execs: the parent's probes are its own.
  if (task.is_over || SharesMemory(task.parent, task.pid)) return;
  if (!HasFiles(task.pid, *child->plan)) {
    // The child has ended, runs another program by now, or has other files in the place of its
    // parent's. The process is treated like a new one.
    (void)attacher_->Forget(task.pid);
    if (HasProgram(task.pid)) shared_->known.Await(task.pid);
    return;
  }
  const absl::Status status =
      attacher_->AttachBy(*child, task.pid, {/*followed=*/true, task.time_ns});
  const int64_t live_ns = MonotonicNs();
  if (status.ok()) {
    if (callbacks_->on_follow) callbacks_->on_follow(task.pid, live_ns - task.time_ns);
    callbacks_->on_change(task.pid, task.parent);
    shared_->gaps.AddLateFork(task.pid, task.time_ns, live_ns);
    return;
  }
  // The child may also have ended, or changed its files, during the attach.
  if (HasFiles(task.pid, *child->plan) && ExitCodeOf(status) != ExitCode::kNoTarget) {
    shared_->known.Refuse(task.pid, status);
  }
}

void Follower::FollowExec(Pid pid) {
  // The old program is gone, and the code with its probes.
  (void)attacher_->Forget(pid);
  shared_->known.OnExecFollowed(pid);
  shared_->known.Await(pid);
}

void Follower::ForgetEnded() {
  const uint64_t lost = shared_->given.programs->ReadCounters().exits_lost;
  if (lost != exits_lost_) looks_for_ended_ = kLooksForEnded;
  exits_lost_ = lost;
  if (looks_for_ended_ == 0) return;
  --looks_for_ended_;
  for (const Pid pid : shared_->known.pids()) {
    if (Exists(pid)) continue;
    shared_->closer.Close(attacher_->Forget(pid));
    shared_->known.OnFoundEnded(pid, MonotonicNs());
  }
}

}  // namespace proftrace
