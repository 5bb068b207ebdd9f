// Tells the kernel's programs how to read what operators are called with (--record-shapes).
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/bpf_programs.h"

namespace proftrace {

// Gives the kernel's programs the signatures by which inputs are read, and puts the programs'
// numbers of these into the cookies of `modules`, and into `numbers`, by index in `signatures`.
absl::Status NumberSignatures(BpfPrograms* programs,
                              const std::vector<abi::pt_signature>& signatures,
                              std::vector<ModulePlan>* modules, std::vector<uint16_t>* numbers);
// Gives the kernel's programs the inputs of rows, and puts the programs' numbers of these into
// `places`. `signatures`: the programs' numbers of signatures, by index.
absl::Status NumberRowInputs(BpfPrograms* programs, const std::vector<abi::pt_row_inputs>& rows,
                             const std::vector<uint16_t>& signatures,
                             std::vector<abi::pt_place>* places);
// Does both for a whole plan, before its places get their numbers.
absl::Status NumberSignatures(BpfPrograms* programs, ProbePlan* plan);

}  // namespace proftrace
