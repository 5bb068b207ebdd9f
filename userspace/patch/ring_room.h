// Whether a process has room for the ring: all of it is mapped there, though only what threads
// write into is ever there as memory, and charged to the process's control group.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "symbols/process/memory_room.h"
#include "userspace/model/ids.h"
#include "userspace/patch/patch_ring.h"

namespace proftrace {

// Returns how much memory the process may map (RLIMIT_AS), by the text of its /proc/PID/limits;
// nullopt: any amount.
std::optional<uint64_t> AddressSpaceLimit(std::string_view limits);

// Gives the ring smaller slots until it takes no more than a quarter of `room_bytes`, so that the
// job's own allocations go on. Fails where that is too little for any ring.
absl::Status FitRing(uint64_t room_bytes, PatchRingOptions* options);
// Gives it smaller slots until what `threads` threads write into, the regions, and `code_bytes`
// that jumps make the process's own have room within the limit of its control group. Fails with
// kHostUnfit where there is not room enough for any.
absl::Status FitIntoGroup(Pid pid, uint64_t code_bytes, uint64_t threads, const MemoryRoom& room,
                          PatchRingOptions* options);
// Does both, by the limits that the process has.
absl::Status FitRing(Pid pid, PatchRingOptions* options);

// Returns the bytes of memory that the process has locked (VmLck).
uint64_t LockedBytes(Pid pid);
// Returns the error for a process that locks all that it maps (mlockall with MCL_FUTURE).
absl::Status LocksAll(uint64_t ring_bytes);

}  // namespace proftrace
