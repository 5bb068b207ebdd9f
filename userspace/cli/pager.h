// Text that is longer than the terminal is shown by a pager, by git's rules.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace proftrace {

// Returns the pager that the environment names: PROFTRACE_PAGER, else PAGER, else "less". nullopt:
// none is wanted, the name is empty or "cat".
std::optional<std::string> PagerOfEnvironment();

// A pager that reads our standard output, from its start to Finish(). It is the user's who called
// sudo, never root's for him; run by root itself, less may start no command (LESSSECURE). For one
// thread.
class Pager {
 public:
  // Starts it where standard output is a terminal. Where it cannot be started, the output stays as
  // it was.
  void Start();
  // Ends our output and waits until the user has left it. Returns false where there is none.
  bool Finish();

 private:
  std::optional<pid_t> pid_;
};

}  // namespace proftrace
