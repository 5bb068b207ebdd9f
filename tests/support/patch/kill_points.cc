#include "tests/support/patch/kill_points.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace proftrace {
namespace {

// Its name, where a call can change another process or what is shared with one. Reads and waits
// cannot: a kill there is one before the next of these.
const char* NameOfStep(unsigned long call) {
  switch (call) {
    case SYS_ptrace:
      return "ptrace";
    case SYS_pwrite64:
      return "pwrite64";
    case SYS_pidfd_getfd:
      return "pidfd_getfd";
    case SYS_ftruncate:
      return "ftruncate";
    case SYS_fcntl:
      return "fcntl";
    case SYS_flock:
      return "flock";
    default:
      return nullptr;
  }
}

// Pages become the process's own by writes of a jump's bytes, thousands of them: one of so many is
// a step.
constexpr int kAlike = 16;
constexpr unsigned long kJumpBytes = 5;

// The name of the call before which it was killed; null: it has ended, with `result`.
const char* KillAt(int point, pid_t child, int* points, int* result) {
  bool is_entry = true;
  bool has_begun = false;  // with the lock of the process
  int alike = 0;
  int status = 0;
  waitpid(child, &status, 0);
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  long give = 0;
  while (true) {
    ptrace(PTRACE_SYSCALL, child, nullptr, give);
    give = 0;
    if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) break;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      give = WSTOPSIG(status);
      continue;
    }
    is_entry = !is_entry;
    if (is_entry) continue;  // that was an exit: entries come first
    user_regs_struct registers{};
    ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    has_begun = has_begun || registers.orig_rax == SYS_flock;
    const char* name = NameOfStep(registers.orig_rax);
    if (!has_begun || name == nullptr) continue;
    const bool is_alike = registers.orig_rax == SYS_pwrite64 && registers.rdx == kJumpBytes;
    if (is_alike && alike++ % kAlike != 0) continue;
    if (++*points < point) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return name;
  }
  *result = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return nullptr;
}

}  // namespace

int KillAtEachPoint(int first, int step, const std::function<int()>& work) {
  for (int point = first;; point += step) {
    const pid_t self = getpid();
    const pid_t child = fork();
    if (child == 0) {
      // Without its parent it would stand still for ever.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != self) _exit(1);
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      _exit(work());
    }
    int points = 0;
    int result = 0;
    const char* name = KillAt(point, child, &points, &result);
    if (name == nullptr) {
      std::printf("whole %d %d\n", points, result);
      return 0;
    }
    std::printf("killed %d %s\n", point, name);
    std::fflush(stdout);
    if (std::getchar() == EOF) return 1;
  }
}

}  // namespace proftrace
