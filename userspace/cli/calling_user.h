// The user who called sudo: what is started for him has his rights, his groups and his home.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace proftrace {

struct CallingUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::vector<std::string> variables;  // "NAME=value": of the environment, in place of root's
};

// Returns nullopt where nobody called sudo.
std::optional<CallingUser> UserOfSudo();

// Returns the environment of a command of that user, with what is root's of ours replaced.
std::vector<std::string> EnvironmentOf(const CallingUser& user);

// Gives this process that environment. To be called before there are threads.
void TakeEnvironmentOf(const CallingUser& user);

// Makes this process the user's for good. Calls nothing that is unsafe between fork and exec.
bool BecomeUser(const CallingUser& user);

// Gives up for good what this process may do beyond its user: under sudo it becomes that of who
// called it, and root keeps the right to read alone. What it starts gets no more. Fails with
// kNotPermitted.
absl::Status GiveUpRights();

}  // namespace proftrace
