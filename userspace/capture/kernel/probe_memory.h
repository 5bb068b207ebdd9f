// Checks the memory that the kernel's probes take: each page of code with a probe in it becomes the
// process's own, and is charged to its control group.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Fails with kHostUnfit where the limit of the process's control group leaves no room for the pages
// that the probes of `modules` lie in. Pages that are the process's own already, as in a forked
// child, take no more room. Returns OK where the limit or the pages cannot be read.
absl::Status CheckProbeMemory(Pid pid, const std::vector<ModulePlan>& modules);

}  // namespace proftrace
