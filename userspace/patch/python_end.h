// Finds where a CPython that ends is about to give up what its threads have: there it waits until
// those that read their own frames have done so (bpf/job/job_stacks.h).
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "userspace/model/ids.h"
#include "userspace/patch/trampoline.h"

namespace proftrace {

// Returns the spot for the jump, in `file` (as /proc/PID/maps names it), which defines _PyRuntime:
// the entry of PyThreadState_Clear, which CPython 3.9 to 3.15 calls for the state of each other
// thread after it has said that it ends, and before it frees the first of them. Fails with why
// there can be none. `cache_directory`: as PlanOptions'.
absl::StatusOr<PatchSpot> FindPythonEnd(Pid pid, const std::string& file,
                                        const std::string& cache_directory);

// Whether a spot is such a one: it belongs to no plan.
bool IsPythonEnd(const PatchSpot& spot);

}  // namespace proftrace
