// The dynamic linker's list of what a process has loaded, as debuggers find it (link.h, r_debug).
#pragma once

#include <cstdint>

#include "symbols/process/process_memory.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns the address of the process's r_debug, from its program headers; 0 = it has none (yet): a
// static program, or one that has only just begun.
uint64_t FindLinkerDebug(Pid pid, const TargetMemory& memory);

// Returns the address of the list's last entry; 0 = it cannot be read. Loading a library gives that
// entry a successor (HasSuccessor); unloading one may free it.
uint64_t LastLoaded(const TargetMemory& memory, uint64_t linker_debug);

// Returns the r_debug of the linker's next namespace; 0 = there is none: dlmopen() makes them.
// Known from glibc 2.35 on.
uint64_t NextNamespace(const TargetMemory& memory, uint64_t linker_debug);

// Whether something was loaded after `entry`, or `entry` can no longer be read.
bool HasSuccessor(const TargetMemory& memory, uint64_t entry);

}  // namespace proftrace
