// Tells the kernel's side, and the collector of modules, how the Python of a process lies in memory
// (--with-stack).
#pragma once

#include <string>
#include <vector>

#include "userspace/capture/bpf_programs.h"
#include "userspace/capture/module_collector.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Before the process's first probe. Sets what of `target` is about stacks; where there are none, or
// not of all its Python, why.
std::vector<Unsupported> PrepareStacks(BpfPrograms* programs, ModuleCollector* modules, Pid pid,
                                       Target* target);

}  // namespace proftrace
