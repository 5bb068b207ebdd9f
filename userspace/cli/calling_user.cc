#include "userspace/cli/calling_user.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <grp.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

#include "userspace/base/exit_status.h"
#include "userspace/base/guarded_folder.h"
#include "userspace/sandbox/rights.h"

namespace proftrace {
namespace {

// The number of fields in a line of passwd(5): name, password, uid, gid, comment, home, shell.
constexpr size_t kPasswdFields = 7;

constexpr std::array<std::string_view, 4> kOfLogin = {"HOME", "USER", "LOGNAME", "SHELL"};
// Variables that tell programs that they run under sudo.
constexpr std::array<std::string_view, 4> kOfSudo = {"SUDO_COMMAND", "SUDO_USER", "SUDO_UID",
                                                     "SUDO_GID"};

// Closes a stream of popen(3).
struct PipeCloser {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

// Returns the output of one of the host's programs; empty where there is no such program. `command`
// must not contain foreign text, because a shell runs it.
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

// Finds a user's groups and variables by asking the host's own programs. The modules that know the
// users (LDAP, systemd) belong to the host's C library, and cannot be loaded into a program that
// brings its own C library.
CallingUser UserOf(const FileOwner& caller) {
  CallingUser user{caller.uid, caller.gid, {caller.gid}, {}};
  const std::string uid = std::to_string(caller.uid);
  std::string line =
      OutputOf("getent passwd " + uid + " || grep \"^[^:]*:[^:]*:" + uid + ":\" /etc/passwd");
  line.resize(std::min(line.find('\n'), line.size()));
  const std::vector<std::string> fields = absl::StrSplit(line, ':');
  // A user without an entry has no groups but its own, and no home.
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

}  // namespace

std::optional<CallingUser> UserOfSudo() {
  const auto caller = OwnerFromSudo();
  return caller.has_value() ? std::optional(UserOf(*caller)) : std::nullopt;
}

std::vector<std::string> EnvironmentOf(const CallingUser& user) {
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

void TakeEnvironmentOf(const CallingUser& user) {
  const std::vector<std::string> variables = EnvironmentOf(user);
  clearenv();
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
}

bool BecomeUser(const CallingUser& user) {
  return setgroups(user.groups.size(), user.groups.data()) == 0 &&
         setresgid(user.gid, user.gid, user.gid) == 0 &&
         setresuid(user.uid, user.uid, user.uid) == 0;
}

absl::Status GiveUpRights() {
  if (const std::optional<CallingUser> user = UserOfSudo()) {
    if (!BecomeUser(*user)) {
      return Fail(ExitCode::kNotPermitted, "cannot become the user who called sudo: " +
                                               ErrnoText(errno) + "; call it without sudo");
    }
    TakeEnvironmentOf(*user);
  }
  if (KeepRightToRead() && NoNewRights()) return absl::OkStatus();
  return Fail(ExitCode::kNotPermitted, "cannot give up rights: " + ErrnoText(errno));
}

}  // namespace proftrace
