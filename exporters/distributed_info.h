// The rank of what a trace is of, and torch's "distributedInfo".
#pragma once

#include <optional>
#include <string>

#include "userspace/model/recording.h"

namespace proftrace {

// A process of that rank; none: of the job's rank, when its processes agree on one, as the format
// has room for one only. One that has groups, if any: forked workers have but the environment.
const Target* RankedTarget(const RecordingInfo& info, std::optional<int> rank);

// What torch.profiler writes (torch/profiler/profiler.py, _get_distributed_info), as far as it is
// known. `target` has a rank.
std::string DistributedInfo(const Target& target);

}  // namespace proftrace
