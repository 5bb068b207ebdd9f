// The system calls that an injection needs: the calls that a stopped thread makes for us, and the
// calls by which a library is loaded and a thread is started.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>

#include "userspace/inject/seccomp_filter.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/model/ids.h"

namespace proftrace {

// The argument by which mmap maps no file.
constexpr uint64_t kNoFile = ~uint64_t{0};

std::span<const FilteredCall> InjectionCalls();

// Checks that the filters of a thread that we have stopped let all of the injection's calls
// through. `instruction` is the address at which the calls will be made.
absl::Status CheckInjectionCalls(Pid pid, int tid, uint64_t instruction);

// Checks in the same way the calls that unmap what an injection or patches have mapped.
absl::Status CheckRemovalCalls(Pid pid, int tid, uint64_t instruction);

// Does what CheckInjectionCalls() does for each thread whose number of filters differs from the
// first thread's, because any thread may be the one that comes by a safe point. Stops one of them
// at a time.
absl::Status CheckOtherFilters(Pid pid, StoppedThreads* threads, uint64_t instruction);

}  // namespace proftrace
