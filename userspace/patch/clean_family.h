// Takes away what a killed run has left in a process, and in the processes that inherited it: a
// fork copies patched code.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "userspace/model/ids.h"
#include "userspace/patch/patched_process.h"

namespace proftrace {

struct CleanedProcess {
  Pid pid{};
  bool is_found = false;  // whether a killed run had left anything in the process
  RemovedPatches removed;
  absl::Status status;  // why the process could not be cleaned, in a sentence that names its PID
};

// Cleans the process itself first, and nothing else where that fails. Then cleans those of its
// descendants, and of the processes that share its ring, in which something was left. Leaves out
// descendants and sharers that have ended meanwhile; kNoTarget where `pid` itself has ended.
std::vector<CleanedProcess> CleanFamily(Pid pid);

}  // namespace proftrace
