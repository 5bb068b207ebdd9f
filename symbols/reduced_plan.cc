#include "symbols/reduced_plan.h"

#include <utility>
#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

uint64_t RoleOf(const ProbePoint& point) { return point.cookie >> 16 & 0xff; }

void SetRole(abi::pt_role role, ProbePoint* point) {
  point->cookie = (point->cookie & ~0xff0000ull) | static_cast<uint64_t>(role) << 16;
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
  plan->has_input_probes = false;
  plan->node_signature = 0;
  plan->row_inputs.clear();
  plan->operator_signatures.clear();
  for (abi::pt_place& place : plan->places) place.inputs = 0;
  plan->gaps.push_back({"inputs of operators (--record-shapes)", reason});
}

}  // namespace proftrace
