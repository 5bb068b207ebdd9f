#include "userspace/cli/launch.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/guarded_folder.h"

namespace proftrace {
namespace {

// As a shell: the command could not be found or run.
constexpr int kCannotRun = 127;

// passwd(5): name, password, uid, gid, comment, home, shell.
constexpr size_t kPasswdFields = 7;

// Whom a command belongs to.
struct CommandUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::vector<std::string> variables;  // "NAME=value": of the environment, in place of root's
};

constexpr std::array<std::string_view, 4> kOfLogin = {"HOME", "USER", "LOGNAME", "SHELL"};
// Tell programs that they run by sudo's leave.
constexpr std::array<std::string_view, 4> kOfSudo = {"SUDO_COMMAND", "SUDO_USER", "SUDO_UID",
                                                     "SUDO_GID"};

// Closes what popen(3) has opened.
struct PipeCloser {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

// Returns what one of the host's programs writes, an empty text where there is no such program.
// `command` has no word of anybody else in it.
std::string OutputOf(const std::string& command) {
  const std::unique_ptr<FILE, PipeCloser> pipe(popen(
      ("PATH=/usr/bin:/bin:/usr/sbin:/sbin; { " + command + "; } 2>/dev/null").c_str(), "re"));
  std::string output;
  std::array<char, 4096> part;
  while (pipe != nullptr) {
    const size_t bytes = fread(part.data(), 1, part.size(), pipe.get());
    if (bytes == 0) break;
    output.append(part.data(), bytes);
  }
  return output;
}

// The host's own programs are asked, because what knows its users (LDAP, systemd) are libraries of
// the host's C library, which cannot be loaded into a program that brings its own.
CommandUser UserOf(const FileOwner& caller) {
  CommandUser user{caller.uid, caller.gid, {caller.gid}, {}};
  const std::string uid = std::to_string(caller.uid);
  std::string line =
      OutputOf("getent passwd " + uid + " || grep \"^[^:]*:[^:]*:" + uid + ":\" /etc/passwd");
  line.resize(std::min(line.find('\n'), line.size()));
  const std::vector<std::string> fields = absl::StrSplit(line, ':');
  // A number without a name: no more groups than its own, and no home.
  if (fields.size() != kPasswdFields) return user;
  for (const absl::string_view word :
       absl::StrSplit(OutputOf("id -G " + uid), absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    gid_t group = 0;
    if (absl::SimpleAtoi(word, &group) && group != caller.gid) user.groups.push_back(group);
  }
  const std::array<std::string, 4> values = {fields[5], fields[0], fields[0], fields[6]};
  for (size_t i = 0; i < values.size(); ++i) {
    user.variables.push_back(std::string(kOfLogin[i]) + "=" + values[i]);
  }
  return user;
}

// The environment of a command of that user, with what is ours of it replaced.
std::vector<std::string> EnvironmentOf(const CommandUser& user) {
  std::vector<std::string> variables = user.variables;
  const auto is_replaced = [&](std::string_view name) {
    const auto is_it = [name](std::string_view other) { return other == name; };
    return std::any_of(kOfSudo.begin(), kOfSudo.end(), is_it) ||
           (!user.variables.empty() && std::any_of(kOfLogin.begin(), kOfLogin.end(), is_it));
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (!is_replaced(variable.substr(0, variable.find('=')))) variables.emplace_back(variable);
  }
  return variables;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// In the child: only what is safe between fork and exec. `fd`: says when to go, takes the errno of
// a failed exec, and is closed by one that works. `user` may be null.
[[noreturn]] void WaitAndRun(int fd, char* const* arguments, const CommandUser* user,
                             char* const* environment) {
  // Signals are for the command, and end it before it begins.
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
  signal(SIGPIPE, SIG_DFL);  // exec keeps what is ignored
  signal(SIGXFSZ, SIG_DFL);
  const bool is_users =
      user == nullptr || (setgroups(user->groups.size(), user->groups.data()) == 0 &&
                          setresgid(user->gid, user->gid, user->gid) == 0 &&
                          setresuid(user->uid, user->uid, user->uid) == 0);
  if (is_users) execvpe(arguments[0], arguments, environment);
  const int error = errno;
  (void)!write(fd, &error, sizeof(error));
  _exit(kCannotRun);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchedCommand>> LaunchedCommand::Start(
    const std::vector<std::string>& command, bool as_root) {
  const auto failure = [&command](int error) {
    return Fail(ExitCode::kHostUnfit, "cannot start " + command[0] + ": " + ErrnoText(error));
  };
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failure(errno);
  const std::vector<char*> arguments = Pointers(command);
  std::optional<CommandUser> user;
  if (const auto caller = OwnerFromSudo(); caller.has_value() && !as_root) user = UserOf(*caller);
  std::vector<std::string> variables;
  if (user.has_value()) variables = EnvironmentOf(*user);
  const std::vector<char*> environment = Pointers(variables);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
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
