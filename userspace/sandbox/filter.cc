#include "userspace/sandbox/filter.h"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <initializer_list>

namespace proftrace {
namespace {

// System calls that cannot harm another process. Any other call fails with ENOSYS, as on a kernel
// that does not have it, so that libraries use an older call instead.
constexpr int kAllowed[] = {
    // Descriptors.
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64),
    SCMP_SYS(pwrite64), SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(fcntl),
    SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(pipe2), SCMP_SYS(poll), SCMP_SYS(ppoll),
    SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate), SCMP_SYS(fadvise64), SCMP_SYS(copy_file_range), SCMP_SYS(sendfile),
    SCMP_SYS(flock), SCMP_SYS(fchown), SCMP_SYS(fchmod), SCMP_SYS(fstatfs), SCMP_SYS(memfd_create),
    SCMP_SYS(getdents64),
    // Calls that look at paths.
    SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(statx),
    SCMP_SYS(statfs), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
    SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getcwd),
    // Memory.
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
    // Threads of its own.
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list), SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(membarrier), SCMP_SYS(gettid), SCMP_SYS(getpid),
    SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    // Signals to itself.
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    // Clocks and figures.
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time),
    SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(getrandom), SCMP_SYS(sysinfo),
    SCMP_SYS(uname), SCMP_SYS(getrusage), SCMP_SYS(umask)};

constexpr int kMakingFiles[] = {SCMP_SYS(open),     SCMP_SYS(openat),    SCMP_SYS(openat2),
                                SCMP_SYS(mkdir),    SCMP_SYS(mkdirat),   SCMP_SYS(unlink),
                                SCMP_SYS(unlinkat), SCMP_SYS(rmdir),     SCMP_SYS(rename),
                                SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(linkat)};

constexpr uint64_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
constexpr uint64_t kWritingFlags = O_ACCMODE | O_CREAT | O_TRUNC;

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(ENOSYS))) {
    if (context_ != nullptr) seccomp_attr_set(context_, SCMP_FLTATR_CTL_TSYNC, 1);
  }
  ~Filter() {
    if (context_ != nullptr) seccomp_release(context_);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  // Allows a call. A call that this libseccomp or this machine does not know stays forbidden, which
  // does no harm.
  void Allow(int call) {
    if (context_ != nullptr) seccomp_rule_add_array(context_, SCMP_ACT_ALLOW, call, 0, nullptr);
  }
  // Allows a call whose arguments are all as `when` says.
  void Allow(int call, std::initializer_list<scmp_arg_cmp> when) {
    if (context_ == nullptr) return;
    seccomp_rule_add_array(context_, SCMP_ACT_ALLOW, call, static_cast<unsigned>(when.size()),
                           when.begin());
  }
  bool Load() { return context_ != nullptr && seccomp_load(context_) == 0; }

 private:
  scmp_filter_ctx context_;
};

scmp_arg_cmp Has(unsigned argument, uint64_t mask, uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

scmp_arg_cmp Is(unsigned argument, uint64_t value) { return {argument, SCMP_CMP_EQ, value, 0}; }

}  // namespace

bool LimitSystemCalls(SystemCalls allowed) {
  Filter filter;
  for (const int call : kAllowed) filter.Allow(call);
  filter.Allow(SCMP_SYS(mmap), {Has(2, PROT_EXEC, 0)});
  filter.Allow(SCMP_SYS(mprotect), {Has(2, PROT_EXEC, 0)});
  // clone3() is not allowed, because filters cannot see its flags. C libraries use clone() then.
  filter.Allow(SCMP_SYS(clone), {Has(0, kNewNamespaces | CLONE_THREAD, CLONE_THREAD)});
  filter.Allow(SCMP_SYS(tgkill), {Is(0, static_cast<uint64_t>(getpid()))});
  filter.Allow(SCMP_SYS(prlimit64), {Is(2, 0)});
  filter.Allow(SCMP_SYS(prctl), {Is(0, PR_SET_NAME)});
  for (const uint64_t request : {uint64_t{TCGETS}, uint64_t{TIOCGWINSZ}, uint64_t{FIONREAD}}) {
    filter.Allow(SCMP_SYS(ioctl), {Is(1, request)});
  }
  if (allowed == SystemCalls::kServing) {
    filter.Allow(SCMP_SYS(accept4));
    filter.Allow(SCMP_SYS(shutdown));
  }
  if (allowed == SystemCalls::kComputing || allowed == SystemCalls::kServing) {
    filter.Allow(SCMP_SYS(sendmsg));
    filter.Allow(SCMP_SYS(recvmsg));
    filter.Allow(SCMP_SYS(recvfrom));
    // With an address the process could send to anybody.
    filter.Allow(SCMP_SYS(sendto), {Is(4, 0)});
    return filter.Load();
  }
  if (allowed == SystemCalls::kMakingFiles) {
    for (const int call : kMakingFiles) filter.Allow(call);
    return filter.Load();
  }
  if (allowed == SystemCalls::kShowing) {
    // A priority may be set only for the id 0: the calling thread, its process group or its user.
    // Without rights, a thread can only lower a priority.
    filter.Allow(SCMP_SYS(setpriority), {Is(0, PRIO_PROCESS), Is(1, 0)});
    // TIOCSTI is left out, because with it the process could type text into the terminal.
    for (const uint64_t request : {uint64_t{TCSETS}, uint64_t{TCSETSW}, uint64_t{TCSETSF}}) {
      filter.Allow(SCMP_SYS(ioctl), {Is(1, request)});
    }
  }
  filter.Allow(SCMP_SYS(open), {Has(1, kWritingFlags, O_RDONLY)});
  filter.Allow(SCMP_SYS(openat), {Has(2, kWritingFlags, O_RDONLY)});
  filter.Allow(SCMP_SYS(open), {Has(1, O_TMPFILE, O_TMPFILE)});
  filter.Allow(SCMP_SYS(openat), {Has(2, O_TMPFILE, O_TMPFILE)});
  return filter.Load();
}

}  // namespace proftrace
