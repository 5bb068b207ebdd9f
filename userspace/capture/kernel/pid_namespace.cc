#include "userspace/capture/kernel/pid_namespace.h"

#include <bpf/bpf.h>
#include <sys/stat.h>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// The initial PID namespace's inode number (PROC_PID_INIT_INO in the kernel).
constexpr ino_t kInitialPidNamespace = 0xEFFFFFFCu;

}  // namespace

absl::Status FindPidNamespace(int program) {
  bpf_test_run_opts options{};
  options.sz = sizeof(options);
  const int error = bpf_prog_test_run_opts(program, &options);
  struct stat info {};
  if (error == 0 || stat("/proc/self/ns/pid", &info) != 0 || info.st_ino == kInitialPidNamespace) {
    return absl::OkStatus();
  }
  return Fail(
      ExitCode::kHostUnfit,
      "this kernel cannot tell process ids of a container apart; run proftrace on the host");
}

}  // namespace proftrace
