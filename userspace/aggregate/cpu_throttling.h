// How far a process was kept from running by quotas of CPU time, as the kernel counted it.
#pragma once

#include <optional>
#include <vector>

#include "userspace/model/recording.h"

namespace proftrace {

// Returns the quotas that a process was under, with what their counters grew by from the last
// snapshot before the window to the first one after it; of those that only came or went meanwhile,
// between the first and the last snapshot that has them. Its own group comes first; empty: there
// was no quota. nullopt: it is not known, as the groups could not be read, or a quota is another
// one at the end.
std::optional<std::vector<CpuQuota>> ThrottlingOf(const RecordingInfo& info, Pid pid);

}  // namespace proftrace
