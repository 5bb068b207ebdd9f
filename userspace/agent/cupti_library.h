#pragma once

#include <stddef.h>
#include <stdint.h>

#include "userspace/agent/memory_map.h"

namespace proftrace::agent {

// The functions of the CUDA driver that are called, and the versions that are there.
struct Driver {
  int (*DeviceGetCount)(int* count);
  int (*DeviceGetAttribute)(int* value, int attribute, int device);
  uint32_t version;          // 12040; 0 = not known
  uint32_t runtime_version;  // 12040; 0 = not known
};

// Opens the driver that the process has mapped. False where it has none.
bool OpenDriver(const MappedLibraries& mapped, Driver* driver);

enum class DriverState { kReady, kNotInitialized, kNoDevice };
// Initializes nothing. CUPTI may only be called when it is ready: without a driver that works,
// calls of CUPTI 13.2 recurse without an end.
DriverState StateOf(const Driver& driver);

// Opens the CUPTI that the process has mapped, else one that fits what it has mapped. nullptr where
// there is none that fits: `message` says so then.
void* OpenCupti(const MappedLibraries& mapped, const Driver& driver, char* message,
                size_t message_bytes);

// Tells the paths to try where none is mapped, for CUDA `major`: `number` counts from 0 on; false:
// there are not so many.
bool CandidatePath(const MappedLibraries& mapped, uint32_t major, uint32_t number, char* path,
                   size_t path_bytes);

}  // namespace proftrace::agent
