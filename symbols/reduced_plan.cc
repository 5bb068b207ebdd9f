#include "symbols/reduced_plan.h"

#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

uint64_t RoleOf(const ProbePoint& point) { return point.cookie >> 16 & 0xff; }

}  // namespace

void RemoveInputs(const std::string& reason, ProbePlan* plan) {
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
  plan->gaps.push_back({"inputs of operators (--record-shapes)", reason});
}

}  // namespace proftrace
