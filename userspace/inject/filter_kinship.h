// Whether another process has the seccomp filters of this one. A process has the filters of the one
// that forked it and those that it has added since; the kernel tells how many that are. So two
// processes of one family have the same filters if all their ancestors up to the common one have as
// many as they.
#pragma once

#include <optional>

#include "userspace/model/ids.h"

namespace proftrace {

// Returns how many filters each thread of the process has; nullopt: they differ, it is gone, or the
// kernel does not tell (before Linux 5.9).
std::optional<int> FiltersOfAllThreads(Pid pid);

// Whether it is known that the filters of all threads of the process are those of this process. An
// orphan's parent is not the one that forked it, and counts only where the session tells that it
// belongs there.
bool HasOwnFilters(Pid pid);

}  // namespace proftrace
