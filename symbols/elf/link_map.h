// Reads the dynamic linker's list of the files that a process has loaded, as debuggers do (link.h,
// r_debug).
#pragma once

#include <cstdint>

#include "symbols/process/process_memory.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns the address of the process's r_debug, from its program headers; 0 = it has none: the
// program is static, or has only just begun.
uint64_t FindLinkerDebug(Pid pid, const TargetMemory& memory);

// Returns the address of the list's last entry; 0 = the list cannot be read. Loading a library
// gives that entry a successor (HasSuccessor); unloading one may free the entry.
uint64_t LastLoaded(const TargetMemory& memory, uint64_t linker_debug);

// Returns the r_debug of the linker's next namespace, as dlmopen() makes them; 0 = there is none,
// or glibc is older than 2.35, where it cannot be found.
uint64_t NextNamespace(const TargetMemory& memory, uint64_t linker_debug);

// Whether a file was loaded after `entry`, or `entry` can no longer be read.
bool HasSuccessor(const TargetMemory& memory, uint64_t entry);

}  // namespace proftrace
