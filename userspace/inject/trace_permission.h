// Tells whether this user may change another process (ptrace(2), "Ptrace access mode checking"),
// and if not, why.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>

#include "userspace/model/ids.h"

namespace proftrace {

// The facts that decide, as far as they can be seen from outside of the process.
struct TraceFacts {
  uint32_t own_user = 0;     // the effective user of this process
  uint32_t target_user = 0;  // the effective user of the target
  // Whether the target lets its own user look into it. False if prctl(PR_SET_DUMPABLE) has switched
  // that off, or if the target's program file gave it more rights than the user has.
  bool is_dumpable = true;
  std::optional<int> ptrace_scope;  // the sysctl kernel.yama.ptrace_scope; none without Yama
  int error = 0;                    // errno of the attempt
};

// Returns a kNotPermitted error with the reason in one sentence.
absl::Status TraceRefusal(Pid pid, const TraceFacts& facts);
// Finds the reason why an attempt has just failed with `error`, and returns it in the same way.
absl::Status TraceRefusal(Pid pid, int error);

// Checks that the process's memory may be written. Fails with kNoTarget, or as TraceRefusal() does.
// Stops nobody.
absl::Status CheckTraceable(Pid pid);

}  // namespace proftrace
