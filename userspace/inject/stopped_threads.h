// Stops the threads of a process by ptrace, without any signal of its own that the process could
// see, and lets them go on. Should proftrace end, however it comes, the kernel lets them go on.
//
// ptrace belongs to one thread of ours: an object is made, used and destroyed on the same one.
// A stop makes epoll_wait, semtimedop, sigtimedwait and socket calls with a time-out return EINTR;
// every other call goes on (signal(7)).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/user.h>

#include <cstdint>
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

class StoppedThreads {
 public:
  StoppedThreads() = default;
  ~StoppedThreads() { Release(); }
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;

  // Stops every thread of the process, also those that start meanwhile, but for the threads
  // `except`. On an error all have been let go. kUnavailable: one did not stop in time (it sleeps
  // in the kernel): try again later.
  absl::Status StopAll(Pid pid, int64_t deadline_ns, const std::set<int>& except = {});
  // Stops the thread `tid` alone.
  absl::Status StopThread(int tid, int64_t deadline_ns);
  // Stops the first thread of a process, if it can be within half a second.
  void Hold(Pid pid);
  // Stops one thread of the process: its first one, else another that stops in time. For a while
  // only one that stands on a stack of its own is taken (stack_room.h).
  absl::Status StopOne(Pid pid, int64_t deadline_ns);

  std::vector<StoppedThread>& threads() { return threads_; }
  // Lets all go on, but for the thread `tid` (0 = none).
  void Release(int keep_tid = 0);
  // CLOCK_MONOTONIC: when the last Release() had let go all that stood still. One that had not
  // stopped yet is let go as soon as it does.
  int64_t let_go_ns() const { return let_go_ns_; }

 private:
  // Whether the thread was not among `threads_`.
  bool Seize(int tid, absl::Status* status);
  // Whether the thread has stopped or is gone by now.
  static bool HasStopped(StoppedThread* thread);
  static bool WaitForStop(StoppedThread* thread, int64_t deadline_ns);

  std::vector<StoppedThread> threads_;
  int64_t let_go_ns_ = 0;
};

}  // namespace proftrace
