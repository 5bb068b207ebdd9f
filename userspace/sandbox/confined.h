// Does work, on bytes that others may have made up, in a child process without rights. Somebody who
// misuses a mistake in that work does not get the rights of proftrace, and a crash of the child
// becomes a sentence for the user.
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
  // Whether the child may make files with names in the directories of `reach.writes`; otherwise
  // only files without a name (O_TMPFILE).
  bool makes_files = false;
  // Whether new files are given to another user, the one who called sudo.
  bool gives_files = false;
  // Whether the child shows a recording: it runs as long as the recording, and sets modes of the
  // terminal. It is not killed when its parent ends, but ends by itself, so that it can restore the
  // terminal first.
  bool is_viewer = false;
  // Words for messages. `what` completes "the process that …", for example with "writes the
  // results". `advice` is a sentence that says what to type when the child has ended early.
  std::string what;
  std::string advice;
};

// Runs `work` in a child process that opens nothing outside of `reach`, has no capability to change
// anything outside of it, and can neither start nor reach another process. Returns the status of
// `work`, or why it could not finish. Where the kernel has no Landlock or no seccomp, the other
// limits still hold. Open descriptors stay open in the child.
absl::Status RunConfined(const Confinement& confinement, const std::function<absl::Status()>& work);

// A child process that does such work while this process goes on. An object is for one thread.
class ConfinedChild {
 public:
  // Starts the child. Must be called before this process has other threads.
  static absl::StatusOr<ConfinedChild> Start(const Confinement& confinement,
                                             const std::function<absl::Status()>& work);

  pid_t pid() const { return pid_; }
  // Waits until the child has ended and returns the status of `work`, or why it could not finish.
  // May be called once.
  absl::Status Wait();

 private:
  ConfinedChild(Confinement confinement, pid_t pid, UniqueFd reports)
      : confinement_(std::move(confinement)), pid_(pid), reports_(std::move(reports)) {}

  Confinement confinement_;
  pid_t pid_;
  UniqueFd reports_;
};

// Ends this process by `signal`, by which a child was ended, where the signal was meant for both:
// SIGPIPE (nobody reads the output), SIGINT, SIGTERM or SIGHUP. To the user, parent and child look
// like one process.
void RaiseIfMeant(int signal);

}  // namespace proftrace
