// Finds free memory near code.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "symbols/process/process_maps.h"

namespace proftrace {

// Returns an address at which `bytes` (whole pages) can be mapped: free memory within reach of a
// jump from each place in [lowest, highest), at no distance that a jump must not have
// (jump_distance.h), and not close behind the heap, which may grow into it. 0: there is none.
// `accepts` is a further condition for the address, which must hold for some page of any 96 in a
// row.
uint64_t FindRoom(const std::vector<Mapping>& mappings, uint64_t lowest, uint64_t highest,
                  uint64_t bytes, const std::function<bool(uint64_t)>& accepts = nullptr);

}  // namespace proftrace
