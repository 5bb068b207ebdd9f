// The facts that the BPF programs of system activity need to know of each system call.
#pragma once

#include <vector>

#include "bpf/abi/system_records.h"

namespace proftrace {

// Returns the facts, by enum pt_system_abi * PT_SYSTEM_CALLS + number.
std::vector<abi::pt_system_call> SystemCallFactsForKernel();

}  // namespace proftrace
