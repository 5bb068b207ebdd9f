#include "userspace/inject/stopped_threads.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/stack_room.h"
#include "userspace/inject/trace_turn.h"

namespace proftrace {
namespace {

constexpr int kStopSpins = 50;  // looks without a pause: most threads stop within microseconds
constexpr useconds_t kStopLookUs = 20;
constexpr int64_t kLongestHoldNs = 500'000'000;
constexpr int64_t kWaitForOneNs = 100'000'000;
// How long to wait until a signal handler that runs on another stack has ended.
constexpr int64_t kWaitForStackNs = 1'000'000'000;
constexpr useconds_t kStackRetryUs = 1000;

std::vector<int> ThreadsOf(Pid pid) {
  const std::vector<uint32_t> tids =
      ReadNumberedEntries("/proc/" + std::to_string(Raw(pid)) + "/task");
  return std::vector<int>(tids.begin(), tids.end());
}

// Runs `work` on a new thread of ours, and waits for it.
absl::Status OnOwnThread(const std::function<void()>& work) {
  try {
    std::thread(work).join();
  } catch (const std::system_error& error) {
    return absl::UnavailableError(std::string("no thread could be started: ") + error.what());
  }
  return absl::OkStatus();
}

// Returns the PID of the thread's tracer; "0": it has none.
std::string TracerOf(int tid) {
  const std::string status = ReadSmallFile("/proc/" + std::to_string(tid) + "/status", 8192);
  return std::string(StatusValue(status, "TracerPid"));
}

absl::Status SeizeRefusal(int tid, const std::string& tracer, int error) {
  const std::string thread = "thread " + std::to_string(tid);
  // Another thread of ours may still trace the thread until it ends.
  if (access(("/proc/self/task/" + tracer).c_str(), F_OK) == 0) {
    return absl::UnavailableError(thread + " is held by another part of proftrace");
  }
  if (tracer != "0" && !tracer.empty()) {
    return Fail(ExitCode::kNotPermitted, thread + " may not be stopped: PID " + tracer +
                                             " traces it (a debugger or strace)");
  }
  return Fail(ExitCode::kNotPermitted,
              thread + " may not be stopped (CAP_SYS_PTRACE may be missing): " + ErrnoText(error));
}

}  // namespace

bool IsTraced(Pid pid) {
  const std::vector<int> tids = ThreadsOf(pid);
  return std::any_of(tids.begin(), tids.end(), [](int tid) {
    const std::string tracer = TracerOf(tid);
    return !tracer.empty() && tracer != "0";
  });
}

absl::Status StoppedThreads::Use(Pid pid,
                                 const std::function<absl::Status(StoppedThreads*)>& work) {
  const absl::StatusOr<TraceTurn> turn = TraceTurn::Take(pid);
  if (!turn.ok()) return turn.status();
  absl::Status status;
  const absl::Status started = OnOwnThread([&status, &work, pid] {
    StoppedThreads threads(pid);
    status = work(&threads);
  });
  return started.ok() ? status : started;
}

void StoppedThreads::WhileHeld(Pid pid, const std::function<void(StoppedThreads*)>& work) {
  bool is_held = false;
  (void)OnOwnThread([&is_held, &work, pid] {
    // The turn is taken on this thread, so that `work` has it, too.
    const absl::StatusOr<TraceTurn> turn = TraceTurn::Take(pid);
    StoppedThreads threads(pid);
    is_held = turn.ok() &&
              threads.StopThread(static_cast<int>(Raw(pid)), MonotonicNs() + kLongestHoldNs).ok();
    if (is_held) work(&threads);
  });
  if (!is_held) work(nullptr);
}

bool StoppedThreads::Seize(int tid, long options, absl::Status* status) {
  const auto is_it = [tid](const StoppedThread& thread) { return thread.tid == tid; };
  if (std::any_of(threads_.begin(), threads_.end(), is_it)) return false;
  const bool is_late = std::erase_if(late_, is_it) > 0;
  if (!is_late && ptrace(PTRACE_SEIZE, tid, nullptr, options) != 0) {
    int error = errno;
    if (error == ESRCH || ThreadHasEnded(static_cast<uint32_t>(tid))) return false;
    // A thread that a seized thread has started is ours from its beginning on.
    siginfo_t ignored;
    const bool is_ours = waitid(P_PID, static_cast<id_t>(tid), &ignored,
                                WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL | __WNOTHREAD) == 0;
    const std::string tracer = TracerOf(tid);
    // The tracer may have let the thread go meanwhile, so that it can be seized now.
    if (!is_ours && tracer == "0") {
      error = ptrace(PTRACE_SEIZE, tid, nullptr, options) == 0 ? 0 : errno;
      if (error == ESRCH) return false;
    }
    if (!is_ours && error != 0) {
      *status = SeizeRefusal(tid, tracer, error);
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
    const pid_t got = waitpid(thread->tid, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (got <= 0) {
      thread->is_gone = got < 0 && ThreadHasEnded(static_cast<uint32_t>(thread->tid));
      return thread->is_gone;
    }
    const int event = status >> 16;
    if (!WIFSTOPPED(status)) {
      thread->is_gone = true;
    } else if (event == PTRACE_EVENT_STOP) {
      thread->is_stopped = true;
    } else {
      // The thread was about to get a signal, which it gets now, or has started a thread. Such a
      // stop cancels a pending interrupt (ptrace_stop() in kernel/signal.c), so another one is
      // sent.
      if (event == PTRACE_EVENT_CLONE) NoteBorn(thread->tid);
      const int signal = WSTOPSIG(status);
      const bool is_signal = event == 0 && signal != (SIGTRAP | 0x80);
      ptrace(PTRACE_INTERRUPT, thread->tid, nullptr, nullptr);
      ptrace(PTRACE_CONT, thread->tid, nullptr, static_cast<long>(is_signal ? signal : 0));
    }
  }
  return true;
}

void StoppedThreads::NoteBorn(int parent_tid) {
  unsigned long tid = 0;
  if (ptrace(PTRACE_GETEVENTMSG, parent_tid, nullptr, &tid) == 0 && tid != 0) {
    born_.push_back(static_cast<int>(tid));
  }
}

bool StoppedThreads::TakeBorn(bool are_wanted) {
  bool found_new = false;
  for (const int tid : std::exchange(born_, {})) {
    // StopAll(), which lists all threads of the process, may have found it before.
    if (std::any_of(threads_.begin(), threads_.end(),
                    [tid](const StoppedThread& thread) { return thread.tid == tid; })) {
      continue;
    }
    const std::string task = "/proc/" + std::to_string(Raw(pid_)) + "/task/" + std::to_string(tid);
    const bool is_wanted = are_wanted && access(task.c_str(), F_OK) == 0;
    (is_wanted ? threads_ : late_).push_back({.tid = tid});
    found_new |= is_wanted;
  }
  return found_new;
}

void StoppedThreads::LetGoLate() {
  std::vector<StoppedThread> still;
  for (StoppedThread& thread : late_) {
    if (!HasStopped(&thread)) {
      still.push_back(thread);
    } else if (!thread.is_gone) {
      ptrace(PTRACE_DETACH, thread.tid, nullptr, nullptr);
    }
  }
  late_ = std::move(still);
}

bool StoppedThreads::WaitForStop(StoppedThread* thread, int64_t deadline_ns) {
  for (int looks = 0; !HasStopped(thread); ++looks) {
    if (MonotonicNs() > deadline_ns) return false;
    LetGoLate();
    if (looks > kStopSpins) usleep(kStopLookUs);
  }
  return true;
}

absl::Status StoppedThreads::StopAll(int64_t deadline_ns, const std::set<int>& except) {
  absl::Status status;
  bool found_new = true;
  while (found_new && status.ok()) {
    found_new = false;
    for (const int tid : ThreadsOf(pid_)) {
      if (except.contains(tid)) continue;
      found_new |= Seize(tid, PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD, &status);
    }
    for (StoppedThread& thread : threads_) {
      if (!status.ok()) break;
      if (!WaitForStop(&thread, deadline_ns)) {
        status = absl::UnavailableError("thread " + std::to_string(thread.tid) +
                                        " did not stop in time");
      }
    }
    found_new |= TakeBorn(/*are_wanted=*/status.ok());
  }
  if (status.ok() && threads_.empty() && except.empty()) {
    status = Fail(ExitCode::kNoTarget, "PID " + std::to_string(Raw(pid_)) + " has ended");
  }
  for (StoppedThread& thread : threads_) {
    if (!thread.is_stopped) continue;
    if (ptrace(PTRACE_GETREGS, thread.tid, nullptr, &thread.registers) == 0) continue;
    // A thread that was killed is gone. Where any other thread stands is not known without its
    // registers.
    thread.is_gone = errno == ESRCH && ThreadHasEnded(static_cast<uint32_t>(thread.tid));
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
  if (!Seize(tid, PTRACE_O_TRACESYSGOOD, &status)) {
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

absl::Status StoppedThreads::StopOne(int64_t deadline_ns, const ThreadCheck& check) {
  std::vector<int> tids = ThreadsOf(pid_);
  const auto first = std::find(tids.begin(), tids.end(), static_cast<int>(Raw(pid_)));
  if (first != tids.end()) std::iter_swap(tids.begin(), first);
  absl::Status status =
      Fail(ExitCode::kNoTarget, "PID " + std::to_string(Raw(pid_)) + " has ended");
  const int64_t any_stack_ns = MonotonicNs() + kWaitForStackNs;
  absl::Status refused;
  // If more threads want to run than there are processors, a single thread may be late; then all
  // are tried again.
  do {
    const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid_);
    if (!mappings.ok()) return mappings.status();
    for (const int tid : tids) {
      const int64_t now_ns = MonotonicNs();
      status = StopThread(tid, std::min(deadline_ns, now_ns + kWaitForOneNs));
      if (ExitCodeOf(status) == ExitCode::kNotPermitted) return status;
      if (status.ok()) {
        const bool is_taken =
            now_ns > any_stack_ns || StandsOnItsOwnStack(threads_.back(), *mappings);
        status = !is_taken ? absl::UnavailableError("no thread stands on a stack of its own")
                 : check != nullptr ? check(threads_.back())
                                    : absl::OkStatus();
        if (status.ok()) return status;
        if (is_taken) refused = status;
        Release();
      }
      if (now_ns > deadline_ns) break;
    }
    if (absl::IsUnavailable(status)) usleep(kStackRetryUs);
  } while (absl::IsUnavailable(status) && MonotonicNs() < deadline_ns);
  return refused.ok() ? status : refused;
}

void StoppedThreads::Release(int keep_tid) {
  std::vector<StoppedThread> kept;
  for (const StoppedThread& thread : std::exchange(threads_, {})) {
    const bool is_kept = thread.tid == keep_tid && !thread.is_gone;
    (is_kept ? kept : late_).push_back(thread);
  }
  threads_ = std::move(kept);
  // Only a stopped thread can be let go.
  LetGoLate();
  (void)TakeBorn(/*are_wanted=*/false);
  let_go_ns_ = MonotonicNs();
}

}  // namespace proftrace
