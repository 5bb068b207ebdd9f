// The rank of what a trace is of, and torch's "distributedInfo".
#pragma once

#include <optional>
#include <string>

#include "userspace/model/recording.h"

namespace proftrace {

// Returns a process of that rank, null where there is none. nullopt: of the job's rank, when its
// processes agree on one, as the format has room for one only. A process with groups is preferred:
// forked workers have only the environment.
const Target* RankedTarget(const RecordingInfo& info, std::optional<int> rank);

// Returns what torch.profiler writes (torch/profiler/profiler.py, _get_distributed_info), as far as
// it is known. `target` has a rank.
std::string DistributedInfo(const Target& target);

}  // namespace proftrace
