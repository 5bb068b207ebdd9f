// Stops the threads of a process by ptrace, without any signal of its own that the process could
// see, and lets them go on. Should proftrace end, however it comes, the kernel lets them go on.
//
// ptrace belongs to one thread of ours, so each object has one, which ends with it. That is the
// only way to let go of a thread that is late: it may sleep in the kernel for hours (a file server
// that does not answer, a frozen cgroup) and would stop then, with nobody there to let it go on;
// the end of the thread that has interrupted it makes the kernel forget that.
//
// A stop makes epoll_wait, semtimedop, sigtimedwait and socket calls with a time-out return EINTR;
// every other call goes on (signal(7)).
#pragma once

#include <absl/status/status.h>
#include <sys/user.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// How long one thread alone may take to stop: the others run on.
constexpr int64_t kOneStopLimitNs = 2'000'000'000;

struct StoppedThread {
  int tid = 0;
  bool is_stopped = false;
  bool is_gone = false;
  user_regs_struct registers{};  // of the moment of the stop
};

// Whether a stopped thread may be taken for what is to be done; where not, why.
using ThreadCheck = std::function<absl::Status(const StoppedThread&)>;

// Whether another program traces a thread of the process.
bool IsTraced(Pid pid);

class StoppedThreads {
 public:
  // Does `work` on a new thread of ours, and waits for it; at its end all go on. Fails with
  // kUnavailable where it is not this thread's turn (trace_turn.h), or as `work` does.
  static absl::Status Use(Pid pid, const std::function<absl::Status(StoppedThreads*)>& work);
  // Does `work` on such a thread while the first thread of the process stands still. Where that
  // does not stop within half a second it goes on, and `work` is done on the calling thread with
  // null.
  static void WhileHeld(Pid pid, const std::function<void(StoppedThreads*)>& work);

  ~StoppedThreads() { Release(); }
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;

  // Stops every thread of the process, also those that start meanwhile, but for the threads
  // `except`. On an error all have been let go. kUnavailable: one did not stop in time (it sleeps
  // in the kernel), or another thread of ours has it: try again later.
  absl::Status StopAll(int64_t deadline_ns, const std::set<int>& except = {});
  // Stops the thread `tid` alone.
  absl::Status StopThread(int tid, int64_t deadline_ns);
  // Stops one thread of the process: its first one, else another that stops in time and that
  // `check` lets pass. For a while only one that stands on a stack of its own is taken
  // (stack_room.h).
  absl::Status StopOne(int64_t deadline_ns, const ThreadCheck& check = nullptr);

  std::vector<StoppedThread>& threads() { return threads_; }
  // Lets all go on, but for the thread `tid` (0 = none). One that is late goes on as soon as it has
  // stopped and somebody looks, at the latest when the object's thread ends.
  void Release(int keep_tid = 0);
  // Returns when the last Release() had let go all that stood still (CLOCK_MONOTONIC).
  int64_t let_go_ns() const { return let_go_ns_; }

 private:
  explicit StoppedThreads(Pid pid) : pid_(pid) {}
  // Whether the thread was not among `threads_`.
  bool Seize(int tid, long options, absl::Status* status);
  // Whether the thread has stopped or is gone by now.
  bool HasStopped(StoppedThread* thread);
  bool WaitForStop(StoppedThread* thread, int64_t deadline_ns);
  // Notes that a thread has just started another one, which is ours, too.
  void NoteBorn(int parent_tid);
  // Takes the threads that were just born: those of the process go to `threads_` if they are
  // wanted, others (also of clone without CLONE_THREAD) to `late_`. Whether any went to `threads_`.
  bool TakeBorn(bool are_wanted);
  void LetGoLate();

  Pid pid_;
  std::vector<StoppedThread> threads_;
  std::vector<StoppedThread> late_;  // to be let go as soon as they have stopped
  std::vector<int> born_;
  int64_t let_go_ns_ = 0;
};

}  // namespace proftrace
