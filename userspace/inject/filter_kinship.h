// Finds out whether another process has the same seccomp filters as this one. A process has the
// filters of the process that forked it and those that it has added since. The kernel tells only
// the number of filters. So two processes of one family have the same filters if they, and all
// their ancestors up to a common one, have the same number.
#pragma once

#include <optional>

#include "userspace/model/ids.h"

namespace proftrace {

// Returns how many filters each thread of the process has. nullopt: the threads differ, the process
// is gone, or the kernel does not tell (before Linux 5.9).
std::optional<int> FiltersOfAllThreads(Pid pid);

// Whether all threads of the process are known to have this process's filters. The parent of an
// orphan is not the process that forked it, so it counts as an ancestor only if the session tells
// that the orphan descends from it.
bool HasOwnFilters(Pid pid);

}  // namespace proftrace
