// Finds where the kernel's probes may go in a process that has another tracer's jumps.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Whether another proftrace that still runs has put jumps into the process.
bool IsPatchedByAnother(Pid pid);

// Returns the points of those sites of `modules`, a plan's modules, that have no changed code near
// any of their points. A probe inside of a jump would kill the process, and a probe behind a jump
// would not be reached. The caller holds the lock of TargetLock::TakeForProbes().
absl::StatusOr<std::vector<ModulePlan>> PointsBesideJumps(Pid pid, std::vector<ModulePlan> modules);

}  // namespace proftrace
