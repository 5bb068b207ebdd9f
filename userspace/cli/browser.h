// Opens the user's browser, as that user and never as root.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "userspace/base/unique_fd.h"
#include "userspace/cli/calling_user.h"

namespace proftrace {

// A helper process that keeps the rights of the user for whom it opens a browser, while this
// process gives up its own. The address contains a secret, and every user of a machine sees the
// arguments of all processes. So the browser is given a small file that redirects to the address
// and that only its user can read. The helper removes the file when this process ends, for whatever
// reason.
class BrowserOpener {
 public:
  // Starts the helper. Returns nullopt where no browser can be opened: there is no screen, or no
  // program that opens one. `user`: the user who called sudo; nullopt: the user of this process. To
  // be called before there are threads.
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
