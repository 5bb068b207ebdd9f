// Finds out where stopped threads are, and where they will continue.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "userspace/inject/stopped_threads.h"

namespace proftrace {

// Whether a thread continues, or may continue, at an address for which `is_inside` is true. Such an
// address is the instruction pointer, or one that the frame of a signal has saved, on whatever
// stack handlers run. Words of the stack count as such a frame if flags and code segment lie behind
// them as the kernel lays them out, which is never so for return addresses. A thread whose stack
// cannot be read, or is in none of the mappings, counts as one that may.
bool AnyThreadGoesOn(const std::vector<StoppedThread>& threads,
                     const std::vector<Mapping>& mappings, const TargetMemory& memory,
                     const std::function<bool(uint64_t)>& is_inside);

}  // namespace proftrace
