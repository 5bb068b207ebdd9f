// Which system calls this process's own seccomp filters let through, found by making the calls.
#pragma once

#include <absl/status/status.h>

#include <span>

#include "userspace/inject/seccomp_filter.h"

namespace proftrace {

// Makes each of the calls in a forked child, with arguments that do nothing there, and returns one
// sentence with the first that the filters refuse (kNotPermitted): they kill for it, ask another
// process, or answer with the errors that filters answer with. The child may die of it, the caller
// does not. A call is as allowed to whoever has the same filters.
absl::Status TryCalls(std::span<const FilteredCall> calls);

}  // namespace proftrace
