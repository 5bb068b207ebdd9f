// Finds where trampolines can go. A process with many libraries, threads or large tensors has
// little free memory within a jump's reach of its code, and that in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/patch/trampoline.h"

namespace proftrace {

// Free memory for the trampolines of the spots [first, end), and what lies before these.
struct PatchRoom {
  uint64_t address = 0;
  uint64_t bytes = 0;  // whole pages
  size_t first = 0;
  size_t end = 0;
};

// Rooms for as many of the `spots`, which ascend by address, as there is free memory of `mappings`
// for: one where all that lie close together fit into it, else as few as it takes. `fixed_bytes`:
// what each room has before its trampolines. In the order of their spots; those without room are in
// none.
std::vector<PatchRoom> FindPatchRooms(std::span<const PatchSpot> spots, uint64_t fixed_bytes,
                                      std::vector<Mapping> mappings);

}  // namespace proftrace
