// Free memory near code.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "symbols/process/process_maps.h"

namespace proftrace {

// Finds where `bytes` (whole pages) can be mapped: free memory within reach of a jump from each
// place in [lowest, highest), and at no distance that a jump must not have (jump_distance.h); 0:
// nowhere. Nothing that may grow grows into it. `accepts`: what else is asked of the room's
// address, which must become true for some page of any 96 in a row.
uint64_t FindRoom(const std::vector<Mapping>& mappings, uint64_t lowest, uint64_t highest,
                  uint64_t bytes, const std::function<bool(uint64_t)>& accepts = nullptr);

}  // namespace proftrace
