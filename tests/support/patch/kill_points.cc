#include "tests/support/patch/kill_points.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>

#include "userspace/inject/quiet_moment.h"

namespace proftrace {
namespace {

const char* NameOfRequest(unsigned long request) {
  switch (request) {
    case PTRACE_SEIZE:
      return "ptrace-seize";
    case PTRACE_INTERRUPT:
      return "ptrace-interrupt";
    case PTRACE_GETREGS:
    case PTRACE_GETREGSET:
      return "ptrace-getregs";
    case PTRACE_SETREGS:
    case PTRACE_SETREGSET:
      return "ptrace-setregs";
    case PTRACE_CONT:
      return "ptrace-cont";
    case PTRACE_DETACH:
      return "ptrace-detach";
    default:
      return "ptrace";
  }
}

// Its name, where a call can change another process or what is shared with one. Reads and waits
// cannot: a kill there is one before the next of these.
const char* NameOfStep(const user_regs_struct& registers) {
  switch (registers.orig_rax) {
    case SYS_ptrace:
      return NameOfRequest(registers.rdi);
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

enum class AtPoint { kKilled, kFails };

// A child at its work. `name`: of the call at its point, null where it has ended before; `result`:
// what the work returned, where it has ended.
struct Course {
  const char* name = nullptr;
  int points = 0;
  int result = 0;
};

// The call that it is about to make returns an error, and does nothing.
void LetFail(pid_t child, user_regs_struct registers) {
  const bool is_trace = registers.orig_rax == SYS_ptrace;
  registers.orig_rax = static_cast<unsigned long>(-1);
  ptrace(PTRACE_SETREGS, child, nullptr, &registers);
  ptrace(PTRACE_SYSCALL, child, nullptr, 0);
  int status = 0;
  waitpid(child, &status, __WALL);
  ptrace(PTRACE_GETREGS, child, nullptr, &registers);
  registers.rax = static_cast<unsigned long>(is_trace ? -EPERM : -EIO);
  ptrace(PTRACE_SETREGS, child, nullptr, &registers);
}

// Whether the call lets a thread go on: the kernel refuses it only for a thread that is gone, which
// needs nothing any more.
bool IsLettingGo(const user_regs_struct& registers) {
  const unsigned long request = registers.rdi;
  return registers.orig_rax == SYS_ptrace &&
         (request == PTRACE_CONT || request == PTRACE_DETACH || request == PTRACE_LISTEN ||
          request == PTRACE_SYSCALL || request == PTRACE_SINGLESTEP);
}

Course Follow(pid_t child, int point, AtPoint what) {
  Course course;
  std::map<pid_t, bool> is_inside;  // of a system call: its threads
  bool has_begun = false;           // with the lock of the process, or with its threads
  int alike = 0;
  int status = 0;
  waitpid(child, &status, 0);
  is_inside[child] = false;
  ptrace(PTRACE_SETOPTIONS, child, nullptr,
         PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE);
  pid_t thread = child;
  long give = 0;
  while (true) {
    if (thread != 0) ptrace(PTRACE_SYSCALL, thread, nullptr, give);
    give = 0;
    thread = waitpid(-1, &status, __WALL);
    if (thread < 0) break;
    if (!WIFSTOPPED(status)) {
      if (thread == child) break;
      thread = 0;
      continue;
    }
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      // A new thread begins with a stop that is not its own.
      const bool is_new = is_inside.try_emplace(thread, false).second;
      if (!is_new && status >> 16 == 0) give = WSTOPSIG(status);
      continue;
    }
    bool& is_entry = is_inside[thread];
    is_entry = !is_entry;
    if (!is_entry) continue;
    user_regs_struct registers{};
    ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
    has_begun = has_begun || registers.orig_rax == SYS_flock || registers.orig_rax == SYS_ptrace;
    const char* name = NameOfStep(registers);
    if (!has_begun || name == nullptr || course.name != nullptr) continue;
    if (what == AtPoint::kFails && IsLettingGo(registers)) continue;
    const bool is_alike = registers.orig_rax == SYS_pwrite64 && registers.rdx == kJumpBytes;
    if (is_alike && alike++ % kAlike != 0) continue;
    if (++course.points < point) continue;
    course.name = name;
    if (what == AtPoint::kFails) {
      LetFail(thread, registers);
      is_entry = false;
      continue;
    }
    kill(child, SIGKILL);
    while (waitpid(-1, &status, __WALL) > 0) {
    }
    return course;
  }
  course.result = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return course;
}

int AtEachPoint(int first, int step, AtPoint what, const std::function<void()>& prepare,
                const std::function<int()>& work) {
  // The child stops at each of its calls until this process has run: on a busy machine its own
  // limits of time would be over before its work is.
  const Hurry hurry;
  for (int point = first;; point += step) {
    const pid_t self = getpid();
    const pid_t child = fork();
    if (child == 0) {
      // Without its parent it would stand still for ever.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != self) _exit(1);
      prepare();
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      _exit(work());
    }
    const Course course = Follow(child, point, what);
    if (course.name == nullptr) {
      std::printf("whole %d %d\n", course.points, course.result);
      return 0;
    }
    if (what == AtPoint::kKilled) {
      std::printf("killed %d %s\n", point, course.name);
    } else {
      std::printf("failed %d %s %d\n", point, course.name, course.result);
    }
    std::fflush(stdout);
    if (std::getchar() == EOF) return 1;
  }
}

}  // namespace

int KillAtEachPoint(int first, int step, const std::function<void()>& prepare,
                    const std::function<int()>& work) {
  return AtEachPoint(first, step, AtPoint::kKilled, prepare, work);
}

int FailAtEachPoint(int first, int step, const std::function<void()>& prepare,
                    const std::function<int()>& work) {
  return AtEachPoint(first, step, AtPoint::kFails, prepare, work);
}

}  // namespace proftrace
