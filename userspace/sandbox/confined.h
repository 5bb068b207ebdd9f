// Work on bytes that others may have made up is done by a process of its own without rights: a
// mistake in it is no way to what proftrace may do, and its end is a sentence.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <functional>
#include <string>

#include "userspace/base/unique_fd.h"
#include "userspace/sandbox/reach.h"

namespace proftrace {

struct Confinement {
  Reach reach;
  // Otherwise what is in `reach.writes` is only for files without a name (O_TMPFILE).
  bool makes_files = false;
  // New files are given to another user (who called sudo).
  bool gives_files = false;
  // It lasts as long as a recording, and sets how the terminal behaves. It ends by itself when its
  // parent is gone: until then it may bring the terminal back.
  bool is_viewer = false;
  // `what` goes on "the process that …": "writes the results". `advice`, a sentence, says what to
  // type when it has ended early.
  std::string what;
  std::string advice;
};

// Runs `work` in a child process, which has no capability that changes anything outside of
// `reach`, opens nothing outside of it, and can start and reach no other process. Returns what
// `work` did, or why it could not finish. Where the kernel knows no Landlock or no seccomp the rest
// is done. Descriptors that are open stay open.
absl::Status RunConfined(const Confinement& confinement, const std::function<absl::Status()>& work);

// A child process that does such work while this one goes on. For one thread.
class ConfinedChild {
 public:
  // Starts it; to be called before this process has other threads.
  static absl::StatusOr<ConfinedChild> Start(const Confinement& confinement,
                                             const std::function<absl::Status()>& work);

  pid_t pid() const { return pid_; }
  // Waits for its end and returns what `work` did, or why it could not finish. Once.
  absl::Status Wait();

 private:
  ConfinedChild(Confinement confinement, pid_t pid, UniqueFd reports)
      : confinement_(std::move(confinement)), pid_(pid), reports_(std::move(reports)) {}

  Confinement confinement_;
  pid_t pid_;
  UniqueFd reports_;
};

// Acts as if there were but one process: where a child was ended by a signal that was meant for
// both (nobody reads what it writes, or the user ends it), this one is ended by it, too.
void RaiseIfMeant(int signal);

}  // namespace proftrace
