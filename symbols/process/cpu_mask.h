// Reads which CPUs a process may run on.
#pragma once

#include <optional>

#include "userspace/model/cpu_mask.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns the CPUs that the first thread of the process may run on, which threads inherit.
// nullopt: the process has ended, or the kernel knows more CPUs than kMostCpus.
std::optional<CpuMask> ReadCpuMask(Pid pid);

}  // namespace proftrace
