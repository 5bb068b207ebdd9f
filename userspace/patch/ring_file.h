// The file behind a ring (patch_memory.h), as other processes see it: its name in a process's maps
// and descriptors, and the header that it gets before anything is mapped.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/model/ids.h"
#include "userspace/patch/patch_ring.h"

namespace proftrace {

inline constexpr char kRingName[] = "proftrace_patch";

// Finds the process's mapping of a ring; nullopt: it has none.
std::optional<Mapping> FindRingMapping(const std::vector<Mapping>& mappings);
// Returns the process's descriptors of rings. It has some only while a ring is being made.
std::vector<int> FindRingDescriptors(Pid pid);
bool IsRingDescriptor(Pid pid, int descriptor);

// Writes the owner, the regions, the jumps, the seccomp filters and the place of Python's end of a
// ring into the ring's file, which has its full size already. By these a later run knows the
// regions that are mapped and do not name their owner yet, and the jumps that a forked child has
// from its parent. The header is written last; it is one page, so that the file has either all of
// it or nothing.
bool AnnounceRing(int file, const PatchRingOptions& options);

}  // namespace proftrace
