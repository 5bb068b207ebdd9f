#include "userspace/capture/kernel/operator_links.h"

#include <iterator>
#include <utility>

#include "bpf/abi/records.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

bool BeginsOperator(const ProbePoint& point) {
  const uint8_t role = RoleOf(point);
  return role == abi::PT_ROLE_OPERATOR_BEGIN || role == abi::PT_ROLE_BEGIN ||
         role == abi::PT_ROLE_OPERATOR_CALL || role == abi::PT_ROLE_INPUTS_BEGIN;
}

}  // namespace

bool IsDemotable(const ProbePlan& plan, uint16_t site) {
  if (site == 0 || site >= plan.sites.size()) return false;
  const Label& label = plan.sites[site].label;
  return label.kind == SpanKind::kOperator && !label.name.empty() && !IsUnobserved(label.name);
}

absl::StatusOr<OperatorLinks> OperatorLinks::Attach(const BpfPrograms& programs,
                                                    const ProbePlan& plan, Pid pid,
                                                    ModulePlan* module, AttachReport* report) {
  std::set<uint16_t> sites;
  for (const ProbePoint& point : module->points) {
    if (BeginsOperator(point) && IsDemotable(plan, SiteOf(point))) sites.insert(SiteOf(point));
  }
  ModulePlan operators = *module;
  const auto is_operator = [&sites](const ProbePoint& point) {
    return sites.contains(SiteOf(point));
  };
  std::erase_if(operators.points, [&](const ProbePoint& point) { return !is_operator(point); });
  std::erase_if(module->points, is_operator);
  OperatorLinks links(std::move(operators));
  absl::StatusOr<LinkSet> made = programs.Attach(links.module_, pid, report);
  if (!made.ok()) return made.status();
  links.links_ = *std::move(made);
  return links;
}

absl::Status OperatorLinks::Remove(BpfPrograms* programs, Pid pid, const RemovedProbes& removed) {
  const auto is_over = [&removed](const ProbePoint& point) {
    return removed.all.contains(SiteOf(point)) ||
           (RoleOf(point) == abi::PT_ROLE_END && removed.ends.contains(SiteOf(point)));
  };
  ModulePlan module = module_;
  if (std::erase_if(module.points, is_over) == 0) return absl::OkStatus();
  for (ProbePoint& point : module.points) point.cookie ^= PT_COOKIE_GENERATION;
  AttachReport report;
  programs->BeginHandover();
  absl::StatusOr<LinkSet> links = programs->Attach(module, pid, &report);
  if (links.ok()) {
    links_ = *std::move(links);  // closes the old link
    module_ = std::move(module);
  }
  programs->EndHandover();
  return links.status();
}

void ProcessLinks::Add(ProcessLinks more) {
  std::move(more.rest.begin(), more.rest.end(), std::back_inserter(rest));
  std::move(more.operators.begin(), more.operators.end(), std::back_inserter(operators));
}

LinkSet ProcessLinks::TakeAll() {
  LinkSet all = std::exchange(rest, {});
  for (OperatorLinks& links : std::exchange(operators, {})) {
    LinkSet taken = links.TakeLinks();
    std::move(taken.begin(), taken.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace proftrace
