#include "userspace/capture/plans/input_probes.h"

#include "bpf/abi/records.h"
#include "userspace/base/exit_status.h"

namespace proftrace {

absl::Status NumberSignatures(BpfPrograms* programs,
                              const std::vector<abi::pt_signature>& signatures,
                              std::vector<ModulePlan>* modules, std::vector<uint16_t>* numbers) {
  for (const abi::pt_signature& signature : signatures) {
    const absl::StatusOr<uint16_t> number = programs->AddSignature(signature);
    if (!number.ok()) return number.status();
    numbers->push_back(*number);
  }
  for (ModulePlan& module : *modules) {
    for (ProbePoint& point : module.points) {
      if (point.signature == 0 || point.signature > numbers->size()) continue;
      point.cookie |= PT_COOKIE_PLACE((*numbers)[point.signature - 1]);
    }
  }
  return absl::OkStatus();
}

absl::Status NumberRowInputs(BpfPrograms* programs, const std::vector<abi::pt_row_inputs>& rows,
                             const std::vector<uint16_t>& signatures,
                             std::vector<abi::pt_place>* places) {
  std::vector<uint16_t> numbers;
  for (abi::pt_row_inputs row : rows) {
    if (row.signature > signatures.size()) return Fail(ExitCode::kBug, "a row without a signature");
    if (row.signature != 0) row.signature = signatures[row.signature - 1];
    const absl::StatusOr<uint16_t> number = programs->AddRowInputs(row);
    if (!number.ok()) return number.status();
    numbers.push_back(*number);
  }
  for (abi::pt_place& place : *places) {
    if (place.inputs > numbers.size()) return Fail(ExitCode::kBug, "a place without inputs");
    if (place.inputs != 0) place.inputs = numbers[place.inputs - 1];
  }
  return absl::OkStatus();
}

absl::Status NumberSignatures(BpfPrograms* programs, ProbePlan* plan) {
  std::vector<uint16_t> numbers;
  absl::Status status = NumberSignatures(programs, plan->signatures, &plan->modules, &numbers);
  if (!status.ok()) return status;
  if (plan->node_signature != 0) plan->node_signature_number = numbers[plan->node_signature - 1];
  for (OperatorSignature& entry : plan->operator_signatures) {
    entry.signature = numbers[entry.signature - 1];
  }
  return NumberRowInputs(programs, plan->row_inputs, numbers, &plan->places);
}

}  // namespace proftrace
