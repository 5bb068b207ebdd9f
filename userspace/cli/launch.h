// Starts a command that is to be recorded from its beginning.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

class LaunchedCommand {
 public:
  // Forks. The child waits for Release() before it becomes the command. Under sudo the command runs
  // as the user who called sudo, with that user's groups and home.
  struct Options {
    bool as_root = false;  // true: the command runs as root even under sudo
    // True: the command's standard output goes to standard error, because this process needs its
    // own.
    bool prints_on_stderr = false;
  };
  static absl::StatusOr<std::unique_ptr<LaunchedCommand>> Start(
      const std::vector<std::string>& command, const Options& options);
  // Ends the child where Release() was not called; it has run nothing then.
  ~LaunchedCommand();
  LaunchedCommand(const LaunchedCommand&) = delete;
  LaunchedCommand& operator=(const LaunchedCommand&) = delete;

  Pid pid() const { return pid_; }
  // Lets the command run. Fails with kUsage where there is no such command, or it cannot be run.
  absl::Status Release();
  // Returns whether the command has not ended yet.
  bool IsRunning() const;

 private:
  LaunchedCommand(Pid pid, std::string name, int fd) : pid_(pid), name_(std::move(name)), fd_(fd) {}

  Pid pid_;
  std::string name_;
  int fd_;  // to the child, which closes its end when it becomes the command
};

}  // namespace proftrace
