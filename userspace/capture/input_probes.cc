#include "userspace/capture/input_probes.h"

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

uint64_t RoleOf(const ProbePoint& point) { return point.cookie >> 16 & 0xff; }

}  // namespace

void RemoveInputs(ProbePlan* plan) {
  if (!plan->has_input_probes) return;
  for (ModulePlan& module : plan->modules) {
    std::erase_if(module.points, [](const ProbePoint& point) {
      return RoleOf(point) == abi::PT_ROLE_SPILLED_INPUTS;
    });
    for (ProbePoint& point : module.points) {
      point.signature = 0;
      if (RoleOf(point) != abi::PT_ROLE_INPUTS_BEGIN) continue;
      point.cookie = (point.cookie & ~0xff0000ull) | uint64_t{abi::PT_ROLE_BEGIN} << 16;
    }
  }
  plan->has_input_probes = false;
  plan->node_signature = 0;
  plan->gaps.push_back({"inputs of operators (--record-shapes)",
                        "this kernel does not take the programs; Linux 5.17 or later is needed"});
}

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
