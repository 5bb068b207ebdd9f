// The collectives of a recording's processes, found by the rule that is good for traces of all
// profilers (CollectiveRows).
#pragma once

#include <vector>

#include "userspace/collectives/source_input.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// A process of the recording: its groups and calls, in CLOCK_MONOTONIC, and what is to be said of
// them.
struct ProcessCalls {
  Pid pid{};
  SourceFacts facts;
};

// Returns the processes that have calls, in the order of the recording's targets.
std::vector<ProcessCalls> FindCollectiveCalls(const Timeline& timeline);

}  // namespace proftrace
