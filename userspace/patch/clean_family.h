// Takes away what a killed run has left in a process, and in those that have it from there: its
// children keep patched code.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "userspace/model/ids.h"
#include "userspace/patch/patched_process.h"

namespace proftrace {

struct CleanedProcess {
  Pid pid{};
  bool is_found = false;  // whether there was anything
  RemovedPatches removed;
  absl::Status status;  // what could not be done, with the process's PID in the sentence
};

// Cleans the process itself first; where that fails, it alone. Then it cleans those of its
// descendants, and of the processes that share its ring, that had something. A process that has
// ended meanwhile is left out, but for `pid` (kNoTarget).
std::vector<CleanedProcess> CleanFamily(Pid pid);

}  // namespace proftrace
