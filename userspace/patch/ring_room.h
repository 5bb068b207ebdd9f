// Finds out whether a process has room for the ring. The whole ring is mapped there, but only the
// parts into which threads write take memory, which is charged to the process's control group.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "symbols/process/memory_room.h"
#include "userspace/model/ids.h"
#include "userspace/patch/patch_ring.h"

namespace proftrace {

// Returns how many bytes of address space the process may map (RLIMIT_AS), by the text of its
// /proc/PID/limits; nullopt: there is no limit.
std::optional<uint64_t> AddressSpaceLimit(std::string_view limits);

// Makes the ring's slots smaller until it takes no more than a quarter of `room_bytes`, so that the
// job's own allocations still succeed. Fails with kHostUnfit if no ring is small enough.
absl::Status FitRing(uint64_t room_bytes, PatchRingOptions* options);
// Makes the ring's slots smaller until there is room within the limit of the process's control
// group: for the slots into which `threads` threads write, for the regions, and for the
// `code_bytes` that jumps make the process's own. Fails with kHostUnfit if no ring is small enough.
absl::Status FitIntoGroup(Pid pid, uint64_t code_bytes, uint64_t threads, const MemoryRoom& room,
                          PatchRingOptions* options);
// Makes the ring's slots smaller as both functions above do, by the limits that the process has.
absl::Status FitRing(Pid pid, PatchRingOptions* options);

// Returns the bytes of memory that the process has locked (VmLck).
uint64_t LockedBytes(Pid pid);
// Returns the error for a process that locks all that it maps (mlockall with MCL_FUTURE).
absl::Status LocksAll(uint64_t ring_bytes);

}  // namespace proftrace
