// How much quotas of CPU time kept a process from running, by the kernel's counters.
#pragma once

#include <optional>
#include <vector>

#include "userspace/model/recording.h"

namespace proftrace {

// Returns the quotas that bound a process. The counters hold the growth from the last snapshot
// before the window to the first one after it, or, for a quota that was set or removed meanwhile,
// from the first to the last snapshot that has the quota. The process's own group comes first.
// Empty: there was no quota. nullopt: not known, because the groups could not be read, or because a
// quota was changed before the end.
std::optional<std::vector<CpuQuota>> ThrottlingOf(const RecordingInfo& info, Pid pid);

}  // namespace proftrace
