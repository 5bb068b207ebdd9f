// Finds where stopped threads are, and where they will go on.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "userspace/inject/stopped_threads.h"

namespace proftrace {

// Whether `is_inside` is true of an address at which a thread goes on, or may be, where its stack
// cannot be read or is in none of the mappings: its instruction pointer, or one that the frame of a
// signal saved, on whatever stack its handlers run. Words of the stack are taken for a frame's when
// flags and code segment lie behind them as the kernel puts them there: return addresses do not
// look so.
bool AnyThreadGoesOn(const std::vector<StoppedThread>& threads,
                     const std::vector<Mapping>& mappings, const TargetMemory& memory,
                     const std::function<bool(uint64_t)>& is_inside);

}  // namespace proftrace
