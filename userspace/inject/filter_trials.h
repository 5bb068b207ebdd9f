// Finds out, by making system calls, which of them this process's own seccomp filters let through.
#pragma once

#include <absl/status/status.h>

#include <span>

#include "userspace/inject/seccomp_filter.h"

namespace proftrace {

// Makes each of the calls in a forked child, with arguments for which the call does nothing. Fails
// with kNotPermitted and one sentence that names the first call that the filters refuse: by killing
// the child, by asking another process, or by an error that filters answer with. Only the child can
// die. Fails with kHostUnfit if no child can be started. Every process with the same filters may
// make the same calls.
absl::Status TryCalls(std::span<const FilteredCall> calls);

}  // namespace proftrace
