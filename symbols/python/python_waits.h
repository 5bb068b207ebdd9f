// Tells whether a sleeping thread of a CPython waits for one of Python's locks or for something
// else. The BPF programs look at threads that begin to wait during the recording
// (bpf/kernel/system_waits.bpf.h); the functions here look at threads that waited already when it
// began.
#pragma once

#include "bpf/abi/system_records.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_runtime.h"

namespace proftrace {

// Returns the address of the interpreter's lock; 0 = not known.
uint64_t FindPythonGil(const TargetMemory& memory, const PythonRuntime& python);

// Returns the kind of lock that the thread waits for: the interpreter's own, or a threading.Lock or
// RLock that another thread holds. Returns PT_PYTHON_NO_LOCK where the module threading uses a lock
// to wait for something else (Condition.wait, Thread.join), and where this cannot be read. The
// answer is valid only if the thread has not run since `wait` was taken.
abi::pt_python_lock AwaitedPythonLock(const TargetMemory& memory, const PythonLayout& layout,
                                      uint64_t gil, const abi::pt_begun_wait& wait);

}  // namespace proftrace
