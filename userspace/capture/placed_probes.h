// Whether the kernel's probes are where a process runs the code: a file may have been exchanged
// for another one with the same name, which only its mappings know.
#pragma once

#include <optional>

#include "symbols/probe_plan.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Looks at some of the module's points in the process's memory. Nothing: it has ended, or none of
// them can be read.
std::optional<bool> HasProbesOf(Pid pid, const ModulePlan& module);

}  // namespace proftrace
