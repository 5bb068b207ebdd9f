#include "userspace/capture/processes/cost_probes.h"

#include <algorithm>
#include <utility>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

// Whether a probe of this role records a call of an operator.
bool IsCall(uint8_t role) {
  return role == abi::PT_ROLE_BEGIN || role == abi::PT_ROLE_OPERATOR_BEGIN ||
         role == abi::PT_ROLE_OPERATOR_CALL || role == abi::PT_ROLE_INPUTS_BEGIN ||
         role == abi::PT_ROLE_PLACED_BEGIN;
}

}  // namespace

LinkSet AttachCostPoints(ProbeAttacher* attacher, const PlannedProcesses& processes) {
  ProcessLinks links;
  for (const auto& [pid, plan] : processes) {
    std::vector<ModulePlan> second;
    for (const ModulePlan& module : plan->modules) {
      if (module.cost_points.empty()) continue;
      second.push_back(module);
      second.back().points = module.cost_points;
    }
    AttachReport report;
    // This fails, for example, in a process that has ended, whose cost is not needed any more.
    (void)attacher->Attach(pid, *plan, second, &links, &report);
  }
  return links.TakeAll();
}

LinkSet AttachCounter(ProbeAttacher* attacher, Pid pid, const ProbePlan& plan) {
  for (const ModulePlan& module : plan.modules) {
    const auto counter = std::find_if(
        module.cost_points.begin(), module.cost_points.end(), [](const ProbePoint& point) {
          return SiteOf(point) == 0 && RoleOf(point) == abi::PT_ROLE_COST;
        });
    if (counter == module.cost_points.end()) continue;
    ModulePlan alone = module;
    alone.points = {*counter};
    ProcessLinks links;
    AttachReport report;
    // An error is not reported here, because it is reported when all the other probes go in.
    const absl::Status status = attacher->Attach(pid, plan, {std::move(alone)}, &links, &report);
    if (status.ok() && report.points > 0) return links.TakeAll();
  }
  return {};
}

LinkSet AttachCounterAt(ProbeAttacher* attacher, Pid pid, const ProbePlan& plan, uint16_t site) {
  std::vector<ModulePlan> counted;
  for (const ModulePlan& module : plan.modules) {
    ModulePlan alone = module;
    alone.points.clear();
    alone.cost_points.clear();
    for (const ProbePoint& point : module.points) {
      if (SiteOf(point) != site || !IsCall(RoleOf(point))) continue;
      alone.points.push_back({point.file_offset, PT_COOKIE(0, abi::PT_ROLE_COST, 0, 0)});
    }
    if (!alone.points.empty()) counted.push_back(std::move(alone));
  }
  ProcessLinks links;
  AttachReport report;
  if (counted.empty() || !attacher->Attach(pid, plan, std::move(counted), &links, &report).ok()) {
    return {};
  }
  return links.TakeAll();
}

}  // namespace proftrace
