// Tells the kernel's programs how to read the inputs of operators (--record-shapes).
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/bpf_programs.h"

namespace proftrace {

// Gives the kernel's programs the signatures by which inputs are read, and puts the numbers by
// which the programs know them into the cookies of `modules`, and into `numbers`, by index in
// `signatures`.
absl::Status NumberSignatures(BpfPrograms* programs,
                              const std::vector<abi::pt_signature>& signatures,
                              std::vector<ModulePlan>* modules, std::vector<uint16_t>* numbers);
// Gives the kernel's programs the descriptions of rows' inputs, and puts the numbers by which the
// programs know them into `places`. `signatures` has the programs' numbers of signatures, by index.
absl::Status NumberRowInputs(BpfPrograms* programs, const std::vector<abi::pt_row_inputs>& rows,
                             const std::vector<uint16_t>& signatures,
                             std::vector<abi::pt_place>* places);
// Does both for a whole plan, before its places get their numbers.
absl::Status NumberSignatures(BpfPrograms* programs, ProbePlan* plan);

}  // namespace proftrace
