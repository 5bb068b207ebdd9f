// Stops the threads of a process by ptrace, without a signal that the process could see, and lets
// them go on. If proftrace ends, however that comes, the kernel lets them go on.
//
// The right of ptrace belongs to one thread of ours, so each object has its own thread, which ends
// with the object. That is the only way to let go of a thread that is late in stopping: it may
// sleep in the kernel for hours (a file server that does not answer, a frozen cgroup) and would
// stop afterwards, with nobody there to let it go on. When the thread that has interrupted it ends,
// the kernel forgets the interrupt.
//
// A stop makes epoll_wait, semtimedop, sigtimedwait and socket calls with a time-out return EINTR;
// every other call continues (signal(7)).
#pragma once

#include <absl/status/status.h>
#include <sys/user.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// How long one thread may take to stop when only that thread is stopped.
constexpr int64_t kOneStopLimitNs = 2'000'000'000;

struct StoppedThread {
  int tid = 0;
  bool is_stopped = false;
  bool is_gone = false;
  user_regs_struct registers{};  // at the moment of the stop
};

// Decides whether a stopped thread may be used; fails with the reason where not.
using ThreadCheck = std::function<absl::Status(const StoppedThread&)>;

// Whether another program traces a thread of the process.
bool IsTraced(Pid pid);

class StoppedThreads {
 public:
  // Does `work` on a new thread of ours and waits for it. Afterwards all threads go on. Fails as
  // `work` does, or with kUnavailable if this thread does not get its turn (trace_turn.h).
  static absl::Status Use(Pid pid, const std::function<absl::Status(StoppedThreads*)>& work);
  // Does `work` on a new thread of ours while the process's first thread stands still. If the first
  // thread does not stop within half a second, or cannot be stopped, `work` is called with null on
  // the calling thread, while all threads of the process run.
  static void WhileHeld(Pid pid, const std::function<void(StoppedThreads*)>& work);

  ~StoppedThreads() { Release(); }
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;

  // Stops every thread of the process, including those that start meanwhile, except the threads
  // `except`. On an error all threads have been let go. kUnavailable: a thread did not stop in time
  // because it sleeps in the kernel, or another thread of ours has it; it may be tried again later.
  absl::Status StopAll(int64_t deadline_ns, const std::set<int>& except = {});
  // Stops the thread `tid` alone.
  absl::Status StopThread(int tid, int64_t deadline_ns);
  // Stops one thread of the process: its first thread, or else another one that stops in time and
  // that `check` lets pass. During the first second, only a thread that stands on a stack of its
  // own is taken (stack_room.h).
  absl::Status StopOne(int64_t deadline_ns, const ThreadCheck& check = nullptr);

  std::vector<StoppedThread>& threads() { return threads_; }
  // Lets all threads go on, except the thread `tid` (0: none). A thread that has not stopped yet
  // is let go as soon as it has and somebody looks, at the latest when the object's thread ends.
  void Release(int keep_tid = 0);
  // Returns when the last Release() had let go all stopped threads (CLOCK_MONOTONIC).
  int64_t let_go_ns() const { return let_go_ns_; }

 private:
  explicit StoppedThreads(Pid pid) : pid_(pid) {}
  // Interrupts the thread and adds it to `threads_`. Returns false if the thread was there already,
  // is gone, or may not be stopped; only in the last case `status` is set to an error.
  bool Seize(int tid, long options, absl::Status* status);
  // Whether the thread has stopped by now, or is gone.
  bool HasStopped(StoppedThread* thread);
  bool WaitForStop(StoppedThread* thread, int64_t deadline_ns);
  // Notes the thread that a traced thread has just started; the kernel makes us its tracer, too.
  void NoteBorn(int parent_tid);
  // Takes the threads that were just born. With `are_wanted`, those of the process go to
  // `threads_`; all others (clone without CLONE_THREAD makes some) go to `late_`. Returns whether
  // any went to `threads_`.
  bool TakeBorn(bool are_wanted);
  void LetGoLate();

  Pid pid_;
  std::vector<StoppedThread> threads_;
  std::vector<StoppedThread> late_;  // threads that are let go as soon as they have stopped
  std::vector<int> born_;
  int64_t let_go_ns_ = 0;
};

}  // namespace proftrace
