// The system calls of an injection: those that a stopped thread makes for us, and what loading a
// library and starting a thread take then.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>

#include "userspace/inject/seccomp_filter.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/model/ids.h"

namespace proftrace {

// An argument of mmap that says that it maps no file.
constexpr uint64_t kNoFile = ~uint64_t{0};

std::span<const FilteredCall> InjectionCalls();

// Whether the filters of a thread that is stopped by us let all of them through; `instruction`:
// where it will make them.
absl::Status CheckInjectionCalls(Pid pid, int tid, uint64_t instruction);

// Checks the calls that take away again what is mapped, in the same way.
absl::Status CheckRemovalCalls(Pid pid, int tid, uint64_t instruction);

// Does what CheckInjectionCalls() does for threads that have filters of their own, by their number:
// any thread may be the one that comes by. Stops each of these for itself.
absl::Status CheckOtherFilters(Pid pid, StoppedThreads* threads, uint64_t instruction);

}  // namespace proftrace
