#include "userspace/inject/stopped_threads.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "symbols/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/stack_room.h"

namespace proftrace {
namespace {

constexpr int kStopSpins = 50;  // looks without a pause: most threads stop within microseconds
constexpr useconds_t kStopLookUs = 20;
constexpr int64_t kLongestHoldNs = 500'000'000;
constexpr int64_t kReleaseWaitNs = 1'000'000'000;
constexpr int64_t kWaitForOneNs = 100'000'000;
constexpr int64_t kWaitForStackNs = 1'000'000'000;  // until a handler on another stack is over
constexpr useconds_t kStackRetryUs = 1000;

std::vector<int> ThreadsOf(Pid pid) {
  const std::vector<uint32_t> tids =
      ReadNumberedEntries("/proc/" + std::to_string(Raw(pid)) + "/task");
  return std::vector<int>(tids.begin(), tids.end());
}

// Whether a thread has ended and its process has not noticed: a first thread that ended before the
// others stays like that.
bool IsZombie(int tid) {
  const std::string stat = ReadSmallFile("/proc/" + std::to_string(tid) + "/stat", 4096);
  const size_t close = stat.rfind(')');
  return close == std::string::npos || close + 2 >= stat.size() || stat[close + 2] == 'Z' ||
         stat[close + 2] == 'X';
}

}  // namespace

bool StoppedThreads::Seize(int tid, absl::Status* status) {
  if (std::any_of(threads_.begin(), threads_.end(),
                  [tid](const StoppedThread& thread) { return thread.tid == tid; })) {
    return false;
  }
  // Threads that a seized one starts are ours from their beginning on: seizing them fails then.
  const long options = PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD;
  if (ptrace(PTRACE_SEIZE, tid, nullptr, options) != 0) {
    if (errno == ESRCH) return false;
    const int error = errno;
    siginfo_t ignored;
    const bool is_ours =
        error == EPERM && waitid(P_PID, static_cast<id_t>(tid), &ignored,
                                 WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
    if (!is_ours && IsZombie(tid)) return false;
    if (!is_ours) {
      *status = Fail(ExitCode::kNotPermitted,
                     "thread " + std::to_string(tid) +
                         " may not be stopped (a debugger is attached to it, or CAP_SYS_PTRACE is "
                         "missing): " +
                         ErrnoText(error));
      return false;
    }
  }
  ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  threads_.push_back({.tid = tid});
  return true;
}

bool StoppedThreads::HasStopped(StoppedThread* thread) {
  while (!thread->is_stopped && !thread->is_gone) {
    int status = 0;
    const pid_t got = waitpid(thread->tid, &status, __WALL | WNOHANG);
    if (got == 0) return false;
    const int event = status >> 16;
    if (got < 0 || !WIFSTOPPED(status)) {
      thread->is_gone = true;
    } else if (event == PTRACE_EVENT_STOP) {
      thread->is_stopped = true;
    } else {
      // It was about to be given a signal: it is, and stops right after it.
      const int signal = WSTOPSIG(status);
      const bool is_signal = event == 0 && signal != (SIGTRAP | 0x80);
      ptrace(PTRACE_CONT, thread->tid, nullptr, static_cast<long>(is_signal ? signal : 0));
    }
  }
  return true;
}

bool StoppedThreads::WaitForStop(StoppedThread* thread, int64_t deadline_ns) {
  for (int looks = 0; !HasStopped(thread); ++looks) {
    if (MonotonicNs() > deadline_ns) return false;
    if (looks > kStopSpins) usleep(kStopLookUs);
  }
  return true;
}

absl::Status StoppedThreads::StopAll(Pid pid, int64_t deadline_ns, const std::set<int>& except) {
  absl::Status status;
  bool found_new = true;
  while (found_new && status.ok()) {
    found_new = false;
    for (const int tid : ThreadsOf(pid)) {
      if (!except.contains(tid)) found_new |= Seize(tid, &status);
    }
    for (StoppedThread& thread : threads_) {
      if (!status.ok()) break;
      if (!WaitForStop(&thread, deadline_ns)) {
        status = absl::UnavailableError("thread " + std::to_string(thread.tid) +
                                        " did not stop in time");
      }
    }
  }
  if (status.ok() && threads_.empty() && except.empty()) {
    status = Fail(ExitCode::kNoTarget, "PID " + std::to_string(Raw(pid)) + " has ended");
  }
  for (StoppedThread& thread : threads_) {
    if (!thread.is_stopped) continue;
    if (ptrace(PTRACE_GETREGS, thread.tid, nullptr, &thread.registers) == 0) continue;
    // One that was killed is gone. Any other stands where nobody can say.
    thread.is_gone = errno == ESRCH;
    if (!thread.is_gone && status.ok()) {
      status = absl::UnavailableError("the registers of thread " + std::to_string(thread.tid) +
                                      " cannot be read");
    }
  }
  if (!status.ok()) Release();
  return status;
}

absl::Status StoppedThreads::StopThread(int tid, int64_t deadline_ns) {
  absl::Status status;
  if (!Seize(tid, &status)) {
    return status.ok() ? Fail(ExitCode::kNoTarget, "thread " + std::to_string(tid) + " has ended")
                       : status;
  }
  StoppedThread& thread = threads_.back();
  if (WaitForStop(&thread, deadline_ns) && !thread.is_gone &&
      ptrace(PTRACE_GETREGS, tid, nullptr, &thread.registers) == 0) {
    return absl::OkStatus();
  }
  status = absl::UnavailableError("thread " + std::to_string(tid) +
                                  (thread.is_gone ? " has ended" : " did not stop in time"));
  Release();
  return status;
}

void StoppedThreads::Hold(Pid pid) {
  (void)StopThread(static_cast<int>(Raw(pid)), MonotonicNs() + kLongestHoldNs);
}

absl::Status StoppedThreads::StopOne(Pid pid, int64_t deadline_ns) {
  std::vector<int> tids = ThreadsOf(pid);
  const auto first = std::find(tids.begin(), tids.end(), static_cast<int>(Raw(pid)));
  if (first != tids.end()) std::iter_swap(tids.begin(), first);
  absl::Status status = Fail(ExitCode::kNoTarget, "PID " + std::to_string(Raw(pid)) + " has ended");
  const int64_t any_stack_ns = MonotonicNs() + kWaitForStackNs;
  // Where more threads want to run than there are processors, the only one may be late: again.
  do {
    const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
    if (!mappings.ok()) return mappings.status();
    for (const int tid : tids) {
      const int64_t now_ns = MonotonicNs();
      status = StopThread(tid, std::min(deadline_ns, now_ns + kWaitForOneNs));
      if (ExitCodeOf(status) == ExitCode::kNotPermitted) return status;
      if (status.ok()) {
        if (now_ns > any_stack_ns || StandsOnItsOwnStack(threads_.back(), *mappings)) return status;
        Release();
        status = absl::UnavailableError("no thread stands on a stack of its own");
      }
      if (now_ns > deadline_ns) break;
    }
    if (absl::IsUnavailable(status)) usleep(kStackRetryUs);
  } while (absl::IsUnavailable(status) && MonotonicNs() < deadline_ns);
  return status;
}

void StoppedThreads::Release(int keep_tid) {
  // Only a stopped thread can be let go. The others go on while one that is late is waited for.
  const int64_t deadline_ns = MonotonicNs() + kReleaseWaitNs;
  let_go_ns_ = 0;
  std::vector<StoppedThread> kept;
  while (!threads_.empty()) {
    std::vector<StoppedThread> late;
    for (StoppedThread& thread : threads_) {
      if (thread.tid == keep_tid && !thread.is_gone) {
        kept.push_back(thread);
      } else if (!HasStopped(&thread)) {
        late.push_back(thread);
      } else if (!thread.is_gone) {
        ptrace(PTRACE_DETACH, thread.tid, nullptr, nullptr);
      }
    }
    threads_ = std::move(late);
    if (let_go_ns_ == 0) let_go_ns_ = MonotonicNs();
    if (MonotonicNs() > deadline_ns) break;
    if (!threads_.empty()) usleep(kStopLookUs);
  }
  threads_ = std::move(kept);
}

}  // namespace proftrace
