// Finds the rank of a trace, and writes torch's "distributedInfo".
#pragma once

#include <optional>
#include <string>

#include "userspace/model/recording.h"

namespace proftrace {

// Returns a process of the rank; nullptr: there is none. Where `rank` is nullopt, the job's rank is
// taken if all its processes agree on one, because the format has room for only one. A process with
// process groups is preferred, because forked workers have only the environment.
const Target* RankedTarget(const RecordingInfo& info, std::optional<int> rank);

// Returns the known facts that torch.profiler writes (torch/profiler/profiler.py,
// _get_distributed_info). `target` must have a rank.
std::string DistributedInfo(const Target& target);

}  // namespace proftrace
