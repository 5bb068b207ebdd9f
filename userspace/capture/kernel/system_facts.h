// The facts that the BPF programs of system activity need to know of each system call.
#pragma once

#include <vector>

#include "bpf/abi/system_records.h"

namespace proftrace {

// Returns the facts about each system call, by its number. The last entry is for all calls that are
// not x86-64's.
std::vector<abi::pt_system_call> SystemCallFactsForKernel();

}  // namespace proftrace
