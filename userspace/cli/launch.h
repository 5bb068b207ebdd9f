// Starts a command that is to be recorded from its beginning.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

class LaunchedCommand {
 public:
  // Forks; the child waits for Release() before it becomes the command.
  static absl::StatusOr<std::unique_ptr<LaunchedCommand>> Start(
      const std::vector<std::string>& command);
  // Without Release() the child ends without having run anything.
  ~LaunchedCommand();
  LaunchedCommand(const LaunchedCommand&) = delete;
  LaunchedCommand& operator=(const LaunchedCommand&) = delete;

  Pid pid() const { return pid_; }
  void Release();

 private:
  LaunchedCommand(Pid pid, int go_fd) : pid_(pid), go_fd_(go_fd) {}

  Pid pid_;
  int go_fd_;
};

}  // namespace proftrace
