#pragma once

#include <stddef.h>
#include <stdint.h>

#include "userspace/agent/memory_map.h"

namespace proftrace::agent {

// What is asked of the CUDA driver, and the versions that are there.
struct Driver {
  int (*DeviceGetCount)(int* count);
  int (*DeviceGetAttribute)(int* value, int attribute, int device);
  uint32_t version;          // 12040; 0 = not known
  uint32_t runtime_version;  // likewise
};

// The driver that the process has mapped. False where it has none.
bool OpenDriver(const MappedLibraries& mapped, Driver* driver);

enum class DriverState { kReady, kNotInitialized, kNoDevice };
// Initializes nothing. CUPTI may only be called when it is ready: without a driver that works,
// calls of CUPTI 13.2 recurse without an end.
DriverState StateOf(const Driver& driver);

// Opens the CUPTI that the process has mapped, else one that fits what it has mapped. nullptr where
// there is none that fits: `message` says so then.
void* OpenCupti(const MappedLibraries& mapped, const Driver& driver, char* message,
                size_t message_bytes);

// The paths to try where none is mapped, for CUDA `major`: `number` counts from 0 on; false = that
// many there are not.
bool CandidatePath(const MappedLibraries& mapped, uint32_t major, uint32_t number, char* path,
                   size_t path_bytes);

}  // namespace proftrace::agent
