// Finds where a thread of a CPython keeps the pointer to its own PyThreadState. Up to 3.14 the
// pointer is with the thread-specific data (pthread_getspecific), which glibc keeps in the thread
// control block. From 3.15 on it is in a thread-local variable (_Py_tss_gilstate), which lies in
// front of that block.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"
#include "symbols/python/python_runtime.h"

namespace proftrace {

// The largest distance of the pointer from the thread control block, in bytes.
inline constexpr int32_t kMostStatePlace = 8192;

// Returns the pointer's offset from the thread control block, in bytes, at which all threads with a
// PyThreadState have it. 0 = there is no such offset, as with another C library than glibc, or,
// from 3.15 on, there are several.
int16_t FindKeptPythonState(const TargetMemory& memory, const PythonLayout& layout);

// Finds the offset for jumps, by which threads read the pointer themselves. Fails with
// FailedPrecondition and the reason where the offset was not found, or where threads may not read
// there because Python has begun to end or is 3.11.0.
absl::StatusOr<int32_t> FindPythonStatePlace(const TargetMemory& memory,
                                             const PythonRuntime& runtime);

}  // namespace proftrace
