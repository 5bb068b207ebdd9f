// Free memory near code.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/process_maps.h"

namespace proftrace {

// Where `bytes` (whole pages) can be mapped: free memory within reach of a jump from each place in
// [lowest, highest); 0 = nowhere. Nothing that may grow grows into it.
uint64_t FindRoom(const std::vector<Mapping>& mappings, uint64_t lowest, uint64_t highest,
                  uint64_t bytes);

}  // namespace proftrace
