// Whether this user may change another process (ptrace(2), "Ptrace access mode checking"), and if
// not, why.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>

#include "userspace/model/ids.h"

namespace proftrace {

// The facts that decide, as far as they can be seen from outside.
struct TraceFacts {
  uint32_t own_user = 0;     // effective
  uint32_t target_user = 0;  // effective
  // It shows itself to its own user: not where prctl(PR_SET_DUMPABLE) says no, or where its program
  // gave it more rights.
  bool is_dumpable = true;
  std::optional<int> ptrace_scope;  // the sysctl kernel.yama.ptrace_scope; none without Yama
  int error = 0;                    // errno of the try
};

// Returns kNotPermitted, with the reason in one sentence.
absl::Status TraceRefusal(Pid pid, const TraceFacts& facts);
// Says why a try that has just failed with `error` was refused.
absl::Status TraceRefusal(Pid pid, int error);

// Fails with kNoTarget, or as TraceRefusal() does. Stops nobody.
absl::Status CheckTraceable(Pid pid);

}  // namespace proftrace
