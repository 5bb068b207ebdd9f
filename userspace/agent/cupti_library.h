#pragma once

#include <stddef.h>
#include <stdint.h>

#include "userspace/agent/memory_map.h"

namespace proftrace::agent {

// The functions of the CUDA driver that the agent calls, and the versions that the process has.
struct Driver {
  int (*DeviceGetCount)(int* count);
  int (*DeviceGetAttribute)(int* value, int attribute, int device);
  uint32_t version;          // 12040 is 12.4; 0: not known
  uint32_t runtime_version;  // 12040 is 12.4; 0: not known
};

// Opens the driver that the process has mapped. Returns false if it has none.
bool OpenDriver(const MappedLibraries& mapped, Driver* driver);

enum class DriverState { kReady, kNotInitialized, kNoDevice };
// Returns the driver's state, without initializing anything. CUPTI may be called only in the state
// kReady: without a working driver, calls of CUPTI 13.2 recurse without end.
DriverState StateOf(const Driver& driver);

// Opens the CUPTI that the process has mapped, or else one that fits the process's libraries.
// Returns nullptr if none fits; then `message` says so.
void* OpenCupti(const MappedLibraries& mapped, const Driver& driver, char* message,
                size_t message_bytes);

// Sets `path` to one of the paths that are tried for CUDA `major` if no CUPTI is mapped: the path
// with this `number`, counted from 0 on. The path is empty if the library that it starts from is
// not mapped. Returns false if there are not so many paths.
bool CandidatePath(const MappedLibraries& mapped, uint32_t major, uint32_t number, char* path,
                   size_t path_bytes);

}  // namespace proftrace::agent
