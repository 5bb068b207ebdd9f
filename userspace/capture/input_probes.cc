#include "userspace/capture/input_probes.h"

#include "bpf/abi/records.h"

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

absl::Status NumberSignatures(BpfPrograms* programs, ProbePlan* plan) {
  std::vector<uint16_t> numbers;
  absl::Status status = NumberSignatures(programs, plan->signatures, &plan->modules, &numbers);
  if (status.ok() && plan->node_signature != 0) {
    plan->node_signature = numbers[plan->node_signature - 1];
  }
  return status;
}

}  // namespace proftrace
