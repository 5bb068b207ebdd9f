// Finds where a thread of a CPython keeps the pointer to its own PyThreadState. Up to 3.14 it is
// with its other thread-specific data (pthread_getspecific), which glibc has in the thread control
// block; from 3.15 on in a thread-local variable (_Py_tss_gilstate), which lies in front of that
// block.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"
#include "symbols/python/python_runtime.h"

namespace proftrace {

// An offset from the thread control block is one of -kMostStatePlace to kMostStatePlace bytes.
inline constexpr int32_t kMostStatePlace = 8192;

// Returns its offset from the thread control block, in bytes, by all threads that have such a
// state; 0 = no place is the same in all of them, as with another C library than glibc, or
// from 3.15 on more than one.
int16_t FindKeptPythonState(const TargetMemory& memory, const PythonLayout& layout);

// Finds the offset for threads that read it themselves. FailedPrecondition, with the reason: there
// is none, or they may not, as where Python has begun to end.
absl::StatusOr<int32_t> FindPythonStatePlace(const TargetMemory& memory,
                                             const PythonRuntime& runtime);

}  // namespace proftrace
