// Opens the user's browser, as that user and never as root.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "userspace/base/unique_fd.h"
#include "userspace/cli/calling_user.h"

namespace proftrace {

// A process that keeps the rights of the user for whom it opens a browser, while this one gives up
// its own. The address has a secret in it, and every user of a machine sees the arguments of all
// processes: so the browser is given a small file that leads there, which only its user can read.
// The file is removed when this ends, whatever ends it.
class BrowserOpener {
 public:
  // Returns nullopt where there is no browser: no screen, or no program that opens one. `user`: who
  // called sudo; none: this process's own. To be called before there are threads.
  static std::optional<BrowserOpener> Start(const std::optional<CallingUser>& user);
  BrowserOpener(BrowserOpener&&) = default;
  ~BrowserOpener();

  void Open(const std::string& address);

 private:
  BrowserOpener(UniqueFd pipe, pid_t child);

  UniqueFd pipe_;
  pid_t child_ = -1;
};

}  // namespace proftrace
