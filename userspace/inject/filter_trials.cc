#include "userspace/inject/filter_trials.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// How long the calls of one child may take. A filter that asks another process
// (SECCOMP_RET_USER_NOTIF) may get no answer.
constexpr int64_t kLongestTrialNs = 2'000'000'000;
constexpr useconds_t kTrialLookUs = 200;
// The descriptor that the calls name in their arguments. The child closes it first, so that the
// calls fail.
constexpr int kNamedDescriptor = 3;

// What the child reports in shared memory. Its parent reads it when the child has ended.
struct Progress {
  std::atomic<size_t> begun{0};  // how many calls were begun
  std::atomic<bool> is_refused{false};
};

struct Unmap {
  void operator()(Progress* progress) const { munmap(progress, sizeof(*progress)); }
};

// Makes a system call that needs nothing of the calling thread, neither a stack nor errno.
long RawCall(long number, const std::array<uint64_t, 6>& arguments) {
  register uint64_t fourth asm("r10") = arguments[3];
  register uint64_t fifth asm("r8") = arguments[4];
  register uint64_t sixth asm("r9") = arguments[5];
  long result = number;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(fourth), "r"(fifth),
                 "r"(sixth)
               : "rcx", "r11", "memory");
  return result;
}

// Makes the calls from `first` on. Runs in the child, which has one thread, and in which any lock
// may be held.
[[noreturn]] void MakeCalls(std::span<const FilteredCall> calls, size_t first, Progress* progress) {
  const rlimit no_core{0, 0};
  syscall(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, nullptr);
  // The signals get their default actions, so that no handler hides that a call has killed the
  // child.
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGSYS}) {
    signal(number, SIG_DFL);
  }
  syscall(SYS_close, kNamedDescriptor);
  for (size_t i = first; i < calls.size(); ++i) {
    progress->begun.store(i + 1);
    const long result = RawCall(calls[i].number, calls[i].arguments);
    // The new thread ends at once.
    if (calls[i].number == SYS_clone && result == 0) RawCall(SYS_exit, {});
    // Filters answer with these errors, and the kernel with others for such arguments.
    if ((result == -EPERM || result == -ENOSYS) && !calls[i].may_fail) {
      progress->is_refused.store(true);
      break;
    }
  }
  syscall(SYS_exit_group, 0);
  __builtin_unreachable();
}

// Waits for the child's end. Returns false if the child had to be killed.
bool WaitForEnd(pid_t child, int* status) {
  const int64_t deadline_ns = MonotonicNs() + kLongestTrialNs;
  for (;;) {
    const pid_t ended = waitpid(child, status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return ended == child;
    if (MonotonicNs() > deadline_ns) break;
    usleep(kTrialLookUs);
  }
  kill(child, SIGKILL);
  while (waitpid(child, status, 0) < 0 && errno == EINTR) {
  }
  return false;
}

absl::Status CannotTry() {
  return Fail(ExitCode::kHostUnfit,
              "what its seccomp filter allows cannot be tried: " + ErrnoText(errno));
}

}  // namespace

absl::Status TryCalls(std::span<const FilteredCall> calls) {
  void* shared =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return CannotTry();
  const std::unique_ptr<Progress, Unmap> progress(new (shared) Progress);
  // A call may end the child for other reasons than a filter (exit, sigreturn). The next child then
  // continues with the next call.
  for (size_t next = 0; next < calls.size(); next = progress->begun.load()) {
    const pid_t child = fork();
    if (child < 0) return CannotTry();
    if (child == 0) MakeCalls(calls, next, progress.get());
    int status = 0;
    const bool has_ended = WaitForEnd(child, &status);
    const size_t begun = progress->begun.load();
    if (begun == next) return CannotTry();
    const bool is_killed = has_ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
    if (!has_ended || is_killed || progress->is_refused.load()) {
      return Fail(ExitCode::kNotPermitted,
                  std::string("its seccomp filter, which this proftrace has as well, does not "
                              "allow ") +
                      calls[begun - 1].name + ", which an injection needs");
    }
  }
  return absl::OkStatus();
}

}  // namespace proftrace
