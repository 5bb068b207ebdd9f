// Probes that read what operators are called with (--record-shapes).
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/bpf_programs.h"

namespace proftrace {

// Gives the kernel what inputs are read by, and the cookies of `modules` its numbers.
// `numbers`: by index.
absl::Status NumberSignatures(BpfPrograms* programs,
                              const std::vector<abi::pt_signature>& signatures,
                              std::vector<ModulePlan>* modules, std::vector<uint16_t>* numbers);
// Gives the kernel what rows are called with, and `places` its numbers. `signatures`: the kernel's
// numbers, by index.
absl::Status NumberRowInputs(BpfPrograms* programs, const std::vector<abi::pt_row_inputs>& rows,
                             const std::vector<uint16_t>& signatures,
                             std::vector<abi::pt_place>* places);
// Numbers all of a whole plan, before its places get their numbers.
absl::Status NumberSignatures(BpfPrograms* programs, ProbePlan* plan);

}  // namespace proftrace
