#include "userspace/cli/launch.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/cli/calling_user.h"

namespace proftrace {
namespace {

// The exit code where the command could not be found or run, as shells have it.
constexpr int kCannotRun = 127;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Runs in the child, and calls only what is safe between fork and exec. `fd`: tells when to go on,
// receives the errno of a failed exec, and is closed by a successful one. `user` may be null.
[[noreturn]] void WaitAndRun(int fd, char* const* arguments, const CallingUser* user,
                             char* const* environment) {
  // Signals get their usual effect, so that they end the child even before the command begins.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
      signal(number, SIG_DFL);
    }
  }
  char go = 0;
  while (read(fd, &go, 1) < 0 && errno == EINTR) {
  }
  if (go != 'g') _exit(kCannotRun);
  signal(SIGPIPE, SIG_DFL);  // because ignored signals stay ignored after exec
  signal(SIGXFSZ, SIG_DFL);
  if (user == nullptr || BecomeUser(*user)) execvpe(arguments[0], arguments, environment);
  const int error = errno;
  (void)!write(fd, &error, sizeof(error));
  _exit(kCannotRun);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchedCommand>> LaunchedCommand::Start(
    const std::vector<std::string>& command, const Options& options) {
  const auto failure = [&command](int error) {
    return Fail(ExitCode::kHostUnfit, "cannot start " + command[0] + ": " + ErrnoText(error));
  };
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failure(errno);
  const std::vector<char*> arguments = Pointers(command);
  std::optional<CallingUser> user;
  if (!options.as_root) user = UserOfSudo();
  std::vector<std::string> variables;
  if (user.has_value()) variables = EnvironmentOf(*user);
  const std::vector<char*> environment = Pointers(variables);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    if (options.prints_on_stderr) dup2(STDERR_FILENO, STDOUT_FILENO);
    WaitAndRun(ends[0], arguments.data(), user.has_value() ? &*user : nullptr,
               user.has_value() ? environment.data() : environ);
  }
  const int error = errno;
  close(ends[0]);
  if (pid < 0) {
    close(ends[1]);
    return failure(error);
  }
  return std::unique_ptr<LaunchedCommand>(
      new LaunchedCommand(Pid{static_cast<uint32_t>(pid)}, command[0], ends[1]));
}

LaunchedCommand::~LaunchedCommand() {
  if (fd_ >= 0) close(fd_);
}

absl::Status LaunchedCommand::Release() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return absl::OkStatus();
  while (send(fd, "g", 1, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
  int error = 0;
  ssize_t bytes = 0;
  while ((bytes = read(fd, &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  close(fd);
  if (bytes != sizeof(error)) return absl::OkStatus();
  return Fail(ExitCode::kUsage, "cannot run '" + name_ + "': " + ErrnoText(error));
}

bool LaunchedCommand::IsRunning() const {
  siginfo_t info{};
  const int waited = waitid(P_PID, Raw(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return waited == 0 && info.si_pid == 0;
}

}  // namespace proftrace
