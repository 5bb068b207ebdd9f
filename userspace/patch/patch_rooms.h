// Finds free memory for trampolines. A process with many libraries, threads or large tensors has
// little free memory within a jump's reach of its code, and that in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/patch/trampoline.h"

namespace proftrace {

// Free memory for the trampolines of the spots [first, end), and for the control page, recorder and
// tables that lie before them in a region.
struct PatchRoom {
  uint64_t address = 0;
  uint64_t bytes = 0;  // a multiple of the page size
  size_t first = 0;
  size_t end = 0;
};

// Finds rooms for as many of the `spots`, which ascend by address, as the free memory between
// `mappings` allows: one room for all spots that lie close together if they fit, else as few rooms
// as possible. Each room has `fixed_bytes` before its trampolines. Returns the rooms in the order
// of their spots. A spot without room is in no room.
std::vector<PatchRoom> FindPatchRooms(std::span<const PatchSpot> spots, uint64_t fixed_bytes,
                                      std::vector<Mapping> mappings);

}  // namespace proftrace
