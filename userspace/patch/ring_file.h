// The file behind a ring (patch_memory.h), as others see it: its name in a process's maps and
// descriptors, and the header that it has before anything is mapped.
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
// Returns the process's descriptors of rings: it has some while a ring is being made.
std::vector<int> FindRingDescriptors(Pid pid);
bool IsRingDescriptor(Pid pid, int descriptor);

// Writes into the file of a ring, which has its size, whose it is, and which regions and jumps
// there will be: by it a later run knows regions that are mapped and do not say so themselves yet,
// and the jumps that a forked child has from its parent. The header comes last; it is one page,
// which a file has whole, or not at all.
bool AnnounceRing(int file, const PatchRingOptions& options);

}  // namespace proftrace
