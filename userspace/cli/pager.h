// Shows text that is longer than the terminal by a pager, by the same rules as git.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace proftrace {

// Returns the pager that the environment names: PROFTRACE_PAGER, else PAGER, else "less". nullopt
// where the name is empty or "cat", because no pager is wanted then.
std::optional<std::string> PagerOfEnvironment();

// A pager that reads this process's standard output from Start() to Finish(). Under sudo it runs as
// the user who called sudo, and not as root. Where root itself runs it, less cannot start commands
// (LESSSECURE). To be used by one thread.
class Pager {
 public:
  // Starts the pager if standard output is a terminal. Where it cannot be started, the output goes
  // to the terminal.
  void Start();
  // Ends the output, and waits until the user has left the pager. Returns false where there is no
  // pager.
  bool Finish();

 private:
  std::optional<pid_t> pid_;
};

}  // namespace proftrace
