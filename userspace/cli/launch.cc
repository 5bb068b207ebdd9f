#include "userspace/cli/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// As a shell: the command could not be found or run.
constexpr int kCannotRun = 127;

// In the child: only what is safe between fork and exec.
[[noreturn]] void WaitAndRun(int go_fd, char* const* arguments) {
  char go = 0;
  while (read(go_fd, &go, 1) < 0 && errno == EINTR) {
  }
  if (go != 'g') _exit(kCannotRun);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
  execvp(arguments[0], arguments);
  perror(arguments[0]);
  _exit(kCannotRun);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchedCommand>> LaunchedCommand::Start(
    const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Fail(ExitCode::kHostUnfit, "cannot start " + command[0] + ": " + ErrnoText(errno));
  }
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    WaitAndRun(ends[0], arguments.data());
  }
  const int error = errno;
  close(ends[0]);
  if (pid < 0) {
    close(ends[1]);
    return Fail(ExitCode::kHostUnfit, "cannot start " + command[0] + ": " + ErrnoText(error));
  }
  return std::unique_ptr<LaunchedCommand>(
      new LaunchedCommand(Pid{static_cast<uint32_t>(pid)}, ends[1]));
}

LaunchedCommand::~LaunchedCommand() {
  if (go_fd_ >= 0) close(go_fd_);
}

void LaunchedCommand::Release() {
  const int fd = std::exchange(go_fd_, -1);
  if (fd < 0) return;
  while (write(fd, "g", 1) < 0 && errno == EINTR) {
  }
  close(fd);
}

}  // namespace proftrace
