// The facts that the BPF programs of system activity need to know of each system call.
#pragma once

#include <vector>

#include "bpf/abi/system_records.h"

namespace proftrace {

// Returns the facts by number, and last those of any call that is none of x86-64.
std::vector<abi::pt_system_call> SystemCallFactsForKernel();

}  // namespace proftrace
