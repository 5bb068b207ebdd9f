#include "symbols/plan/reduced_plan.h"

#include <utility>
#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

void DropRowInputs(ProbePlan* plan) {
  plan->row_inputs.clear();
  plan->operator_signatures.clear();
  for (abi::pt_place& place : plan->places) place.inputs = 0;
}

}  // namespace

void RemoveInputs(const std::string& reason, ProbePlan* plan) {
  if (!plan->has_input_probes) return;
  for (ModulePlan& module : plan->modules) {
    std::erase_if(module.points, [](const ProbePoint& point) {
      return RoleOf(point) == abi::PT_ROLE_SPILLED_INPUTS;
    });
    for (ProbePoint& point : module.points) {
      const uint16_t signature = std::exchange(point.signature, uint16_t{0});
      if (RoleOf(point) == abi::PT_ROLE_INPUTS_BEGIN) {
        SetRole(abi::PT_ROLE_BEGIN, &point);
      } else if (RoleOf(point) == abi::PT_ROLE_OPERATOR_CALL && signature != 0) {
        point.cookie |= plan->signatures[signature - 1].begin;
        SetRole(abi::PT_ROLE_OPERATOR_BEGIN, &point);
      }
    }
  }
  plan->signatures.clear();  // programs that read no inputs have no room for them
  plan->has_input_probes = false;
  plan->node_signature = plan->node_signature_number = 0;
  DropRowInputs(plan);
  plan->gaps.push_back({"inputs of operators (--record-shapes)", reason});
}

void RemoveRowInputs(const std::string& reason, ProbePlan* plan) {
  if (plan->row_inputs.empty()) return;
  DropRowInputs(plan);
  plan->gaps.push_back({"inputs of rows that are no functions (--record-shapes)", reason});
}

}  // namespace proftrace
