#include "userspace/capture/held_thread.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "userspace/base/clock.h"

namespace proftrace {
namespace {

constexpr int64_t kLongestWaitNs = 500'000'000;
constexpr useconds_t kLookUs = 200;

}  // namespace

HeldThread::HeldThread(Pid pid) : pid_(pid) {
  const auto id = static_cast<pid_t>(Raw(pid));
  is_seized_ = ptrace(PTRACE_SEIZE, id, nullptr, nullptr) == 0;
  if (!is_seized_) return;
  is_held_ = ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr) == 0 && WaitForStop();
}

bool HeldThread::WaitForStop() {
  const int64_t until_ns = MonotonicNs() + kLongestWaitNs;
  do {
    int status = 0;
    const pid_t got = waitpid(static_cast<pid_t>(Raw(pid_)), &status, __WALL | WNOHANG);
    if (got < 0) return false;
    if (got == 0) {
      usleep(kLookUs);
      continue;
    }
    if (!WIFSTOPPED(status)) {  // it has ended
      is_seized_ = false;
      return false;
    }
    const bool is_event = status >> 16 == PTRACE_EVENT_STOP;
    signal_ = is_event ? 0 : WSTOPSIG(status);
    return true;
  } while (MonotonicNs() < until_ns);
  return false;
}

HeldThread::~HeldThread() {
  if (!is_seized_) return;
  // Only a stopped thread can be let go; one that did not stop in time does so soon.
  if (!is_held_ && !WaitForStop()) return;
  ptrace(PTRACE_DETACH, static_cast<pid_t>(Raw(pid_)), nullptr, signal_);
}

}  // namespace proftrace
