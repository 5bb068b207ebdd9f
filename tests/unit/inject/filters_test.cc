// Seccomp filters that cannot be read: whose they are, and what they let through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/inject/filter_kinship.h"
#include "userspace/inject/filter_trials.h"
#include "userspace/inject/injection_calls.h"
#include "userspace/inject/seccomp_filter.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

// Adds a filter to the calling thread that answers so to one system call whose third argument has
// these bits, and allows all else.
bool AddFilter(long number, uint32_t answer, uint32_t bits = 0) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bits, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool AddHarmlessFilter() { return AddFilter(SYS_getpgid, SECCOMP_RET_ALLOW); }

// Runs `work` in a child, so that filters do not stay, and returns what it says.
std::string InChild(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string said = work();
    (void)!write(ends[1], said.data(), said.size());
    _exit(0);
  }
  close(ends[1]);
  std::string said(4096, '\0');
  const ssize_t bytes = read(ends[0], said.data(), said.size());
  said.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? said : "ended by a signal";
}

std::string TriedUnder(long number, uint32_t answer, uint32_t bits = 0) {
  return InChild([&]() -> std::string {
    if (!AddFilter(number, answer, bits)) return "no filter";
    const absl::Status status = TryCalls(InjectionCalls());
    return status.ok() ? "allowed" : std::string(status.message());
  });
}

TEST(FilterTrialsTest, AllAreAllowedWithoutAFilter) {
  EXPECT_TRUE(TryCalls(InjectionCalls()).ok()) << TryCalls(InjectionCalls());
  EXPECT_TRUE(TryCalls({}).ok());
}

TEST(FilterTrialsTest, AFilterThatKillsIsFoundAndTheCallerLives) {
  EXPECT_THAT(TriedUnder(SYS_madvise, SECCOMP_RET_KILL_PROCESS), HasSubstr("not allow madvise"));
  EXPECT_THAT(TriedUnder(SYS_rt_sigreturn, SECCOMP_RET_KILL_THREAD), HasSubstr("rt_sigreturn"));
  EXPECT_THAT(TriedUnder(SYS_futex, SECCOMP_RET_TRAP), HasSubstr("futex"));
}

TEST(FilterTrialsTest, AnErrorIsFoundAndMattersWhereTheCallIsNeeded) {
  EXPECT_THAT(TriedUnder(SYS_mprotect, SECCOMP_RET_ERRNO | EPERM), HasSubstr("mprotect"));
  EXPECT_THAT(TriedUnder(SYS_fcntl, SECCOMP_RET_ERRNO | ENOSYS), HasSubstr("fcntl"));
  EXPECT_EQ(TriedUnder(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS), "allowed");
  // The arguments are those of the injection.
  EXPECT_THAT(TriedUnder(SYS_mmap, SECCOMP_RET_ERRNO | EPERM, PROT_EXEC),
              HasSubstr("mmap of code"));
}

TEST(FilterTrialsTest, AFilterThatAsksSomebodyIsNotWaitedFor) {
  // Nobody listens, which is an error, ENOSYS, at once.
  EXPECT_THAT(TriedUnder(SYS_memfd_create, SECCOMP_RET_USER_NOTIF), HasSubstr("memfd_create"));
  EXPECT_THAT(TriedUnder(SYS_memfd_create, SECCOMP_RET_TRACE), HasSubstr("memfd_create"));
}

// A forked process that lives until it is told.
class Relative {
 public:
  explicit Relative(const std::function<void()>& begin) {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      begin();
      (void)!write(ends[1], "b", 1);
      for (;;) pause();
    }
    char byte = 0;
    (void)!read(ends[0], &byte, 1);
    close(ends[0]);
    close(ends[1]);
  }
  ~Relative() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Relative(const Relative&) = delete;
  Relative& operator=(const Relative&) = delete;
  Pid pid() const { return Pid{static_cast<uint32_t>(pid_)}; }

 private:
  pid_t pid_ = -1;
};

std::string Said(bool value) { return value ? "yes" : "no"; }

TEST(FilterKinshipTest, ChildrenHaveTheFiltersOfTheirParents) {
  EXPECT_EQ(InChild([] {
              if (!AddHarmlessFilter()) return std::string("no filter");
              const Relative same([] {});
              const Relative more([] { AddHarmlessFilter(); });
              return std::to_string(FiltersOfAllThreads(same.pid()).value_or(-1)) +
                     std::to_string(FiltersOfAllThreads(more.pid()).value_or(-1)) +
                     Said(HasOwnFilters(same.pid())) + Said(HasOwnFilters(more.pid()));
            }),
            "12yesno");
}

TEST(FilterKinshipTest, ParentsHaveThoseOfTheirChildrenUnlessOneOfThemHasMore) {
  EXPECT_EQ(InChild([] {
              if (!AddHarmlessFilter()) return std::string("no filter");
              return InChild([] { return Said(HasOwnFilters(Pid{uint32_t(getppid())})); }) +
                     InChild([] {
                       AddHarmlessFilter();
                       return Said(HasOwnFilters(Pid{uint32_t(getppid())}));
                     });
            }),
            "yesno");
}

TEST(FilterKinshipTest, SiblingsThatHaveEachAddedOneDoNotHaveTheSame) {
  EXPECT_EQ(InChild([] {
              if (!AddHarmlessFilter()) return std::string("no filter");
              const Relative other([] { AddFilter(SYS_madvise, SECCOMP_RET_KILL_PROCESS); });
              return InChild([&] {
                AddHarmlessFilter();
                return Said(FiltersOfAllThreads(other.pid()) == 2) +
                       Said(HasOwnFilters(other.pid()));
              });
            }),
            "yesno");
}

TEST(FilterKinshipTest, AnOrphanOfAnotherFamilyIsNotBelieved) {
  // Its parent is not known to have forked it.
  EXPECT_EQ(InChild([] {
              if (!AddHarmlessFilter()) return std::string("no filter");
              return Said(HasOwnFilters(Pid{1}));
            }),
            "no");
}

}  // namespace
}  // namespace proftrace
