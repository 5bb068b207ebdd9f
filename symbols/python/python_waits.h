// Tells what a thread of a CPython waits for, where it sleeps as threads do that wait for a
// semaphore: one of Python's locks, or something else. The kernel's programs look at threads that
// begin to wait (bpf/kernel/system_waits.bpf.h); this is for those that waited already.
#pragma once

#include "bpf/abi/system_records.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_runtime.h"

namespace proftrace {

// Returns the address of the interpreter's lock; 0 = not known.
uint64_t FindPythonGil(const TargetMemory& memory, const PythonRuntime& python);

// Returns which lock that another thread holds the thread waits for: the interpreter's own, or a
// threading.Lock or RLock. None where threading itself waits with a lock (Condition.wait,
// Thread.join), and where that cannot be read. The thread must not have run since `wait` was taken,
// or the answer means nothing.
abi::pt_python_lock AwaitedPythonLock(const TargetMemory& memory, const PythonLayout& layout,
                                      uint64_t gil, const abi::pt_begun_wait& wait);

}  // namespace proftrace
