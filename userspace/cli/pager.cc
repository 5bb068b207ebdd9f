#include "userspace/cli/pager.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "userspace/base/unique_fd.h"
#include "userspace/cli/calling_user.h"

namespace proftrace {
namespace {

// The options that git gives less: quit at once where everything fits on the screen (F), show
// colours (R), and leave the text on the terminal (X).
constexpr char kLessFlags[] = "FRX";
constexpr int kNoSuchCommand = 127;

// Runs in the child, and becomes the pager. `pipe`: the pager's input.
[[noreturn]] void RunPager(const std::string& command, int pipe,
                           const std::optional<CallingUser>& user) {
  if (user.has_value()) {
    TakeEnvironmentOf(*user);
    if (!BecomeUser(*user)) _exit(kNoSuchCommand);
  }
  if (geteuid() == 0) setenv("LESSSECURE", "1", /*overwrite=*/1);
  setenv("LESS", kLessFlags, /*overwrite=*/0);
  if (dup2(pipe, STDIN_FILENO) < 0) _exit(kNoSuchCommand);
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(kNoSuchCommand);
}

bool IsInPath(const std::string& command) {
  const std::string test = "command -v " + command + " >/dev/null 2>&1";
  return std::system(test.c_str()) == 0;
}

}  // namespace

std::optional<std::string> PagerOfEnvironment() {
  constexpr std::array<const char*, 2> kVariables = {"PROFTRACE_PAGER", "PAGER"};
  for (const char* variable : kVariables) {
    const char* value = std::getenv(variable);
    if (value == nullptr) continue;
    const std::string command = value;
    return command.empty() || command == "cat" ? std::nullopt : std::optional(command);
  }
  return "less";
}

void Pager::Start() {
  const char* terminal = std::getenv("TERM");
  if (isatty(STDOUT_FILENO) == 0 || terminal == nullptr || std::string(terminal) == "dumb") return;
  const std::optional<std::string> command = PagerOfEnvironment();
  // A missing `less` is not reported, because it is only the default. Any other missing pager is.
  if (!command.has_value() || (*command == "less" && !IsInPath(*command))) return;
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const std::optional<CallingUser> user = UserOfSudo();
  std::cout.flush();
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) RunPager(*command, read_end.get(), user);
  if (pid < 0) return;
  if (dup2(write_end.get(), STDOUT_FILENO) < 0) return;
  // It is no error where the user leaves the pager before all output is written.
  signal(SIGPIPE, SIG_IGN);
  pid_ = pid;
}

bool Pager::Finish() {
  if (!pid_.has_value()) return false;
  signal(SIGINT, SIG_IGN);  // ^C is for the pager from now on
  std::cout.flush();
  std::fflush(stdout);
  close(STDOUT_FILENO);
  // Later output goes to /dev/null, and is no error.
  open("/dev/null", O_WRONLY | O_CLOEXEC);
  while (waitpid(*pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_.reset();
  return true;
}

}  // namespace proftrace
