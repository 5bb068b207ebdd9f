// Finds where a thread of a CPython keeps the pointer to its own PyThreadState: with its other
// thread-specific data (pthread_getspecific), which glibc has in the thread control block.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"
#include "symbols/python/python_runtime.h"

namespace proftrace {

// Returns its offset from the thread control block, in bytes, by all threads that have such a
// state; 0 = no place is the same in all of them, as with another C library than glibc.
uint16_t FindKeptPythonState(const TargetMemory& memory, const PythonLayout& layout);

// Finds the offset for threads that read it themselves. FailedPrecondition, with the reason: there
// is none, or they may not, as where Python has begun to end.
absl::StatusOr<uint32_t> FindPythonStatePlace(const TargetMemory& memory,
                                              const PythonRuntime& runtime);

}  // namespace proftrace
