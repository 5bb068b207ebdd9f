// Takes away what a killed run has left in a process, and in the processes that have inherited it,
// because a fork copies patched code.
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
  absl::Status status;  // not OK: why the process could not be cleaned, in a sentence with its PID
};

// Cleans the process `pid` first; where that fails, cleans no other one. Then cleans its
// descendants and the processes that share its ring. Returns the result for `pid`, and for each
// other process in which something was left or which could not be cleaned, except those that have
// ended meanwhile. The result for `pid` is kNoTarget where `pid` itself has ended.
std::vector<CleanedProcess> CleanFamily(Pid pid);

}  // namespace proftrace
