// Measures what records of system activity cost, by loops in this process.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "userspace/model/recording.h"

namespace proftrace {

// How long one turn of a loop takes, in nanoseconds. nullopt: it was not asked for, or there was no
// memory.
struct LoopTimes {
  // A system call that does little, and counts as I/O: the median of several loops.
  std::optional<double> call_ns;
  // A page fault, the first write to a page of fresh memory: the fastest of several loops.
  std::optional<double> fault_ns;
};

// Runs the loops on this thread. Takes some milliseconds.
LoopTimes TimeLoops(bool calls, bool faults);

// Returns what records cost. `plain`, `recorded`: the loops without records and with them;
// `fault_ns`: the durations in the records of faults.
SystemCost CostOfRecords(const LoopTimes& plain, const LoopTimes& recorded,
                         std::vector<uint64_t> fault_ns);

}  // namespace proftrace
