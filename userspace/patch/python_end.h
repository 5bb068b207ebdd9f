// Finds the place where CPython, as it ends, is about to free the states of its threads. Python is
// made to wait there until all threads that read their own frames are done (bpf/job/job_stacks.h).
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "userspace/model/ids.h"
#include "userspace/patch/trampoline.h"

namespace proftrace {

// Returns the spot for the jump in `file` (named as in /proc/PID/maps), which defines _PyRuntime.
// The spot is at the entry of PyThreadState_Clear, which CPython 3.9 to 3.15 calls for the state of
// each other thread, after it has noted that it ends and before it frees the first of these states.
// Fails with the reason if there is no such spot. `cache_directory`: as in PlanOptions.
absl::StatusOr<PatchSpot> FindPythonEnd(Pid pid, const std::string& file,
                                        const std::string& cache_directory);

// Whether FindPythonEnd() has made this spot; if so, the spot belongs to no plan.
bool IsPythonEnd(const PatchSpot& spot);

}  // namespace proftrace
