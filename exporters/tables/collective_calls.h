// Finds the collectives of a recording's processes, by the same rule as for traces of all profilers
// (CollectiveRows).
#pragma once

#include <vector>

#include "userspace/collectives/source_input.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The groups and calls of a process, with times in CLOCK_MONOTONIC, and remarks on them.
struct ProcessCalls {
  Pid pid{};
  SourceFacts facts;
};

// Returns the processes that have calls, in the order of the recording's targets.
std::vector<ProcessCalls> FindCollectiveCalls(const Timeline& timeline);

}  // namespace proftrace
