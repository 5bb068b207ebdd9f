// Finds the user who called sudo. Programs that are started for this user get the user's rights,
// groups and home.
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
  // Variables of the environment ("NAME=value") that replace root's.
  std::vector<std::string> variables;
};

// Returns the user who called sudo; nullopt where nobody did.
std::optional<CallingUser> UserOfSudo();

// Returns the environment for a command of that user: ours, with root's variables replaced.
std::vector<std::string> EnvironmentOf(const CallingUser& user);

// Gives this process that environment. To be called before there are threads.
void TakeEnvironmentOf(const CallingUser& user);

// Makes this process one of that user, for good. Returns false on failure. Calls nothing that is
// unsafe between fork and exec.
bool BecomeUser(const CallingUser& user);

// Gives up, for good, all rights that this process has beyond those of its user. Under sudo it
// becomes a process of the user who called sudo; as root it only keeps the right to read. Programs
// that it starts cannot regain the rights. Fails with kNotPermitted.
absl::Status GiveUpRights();

}  // namespace proftrace
