#include "userspace/capture/plans/plan_registry.h"

#include <optional>
#include <utility>

#include "bpf/abi/records.h"
#include "symbols/plan/plan_extension.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/plans/input_probes.h"

namespace proftrace {
namespace {

std::vector<Label> LabelsOf(const std::vector<SiteInfo>& sites) {
  std::vector<Label> labels;
  labels.reserve(sites.size());
  for (const SiteInfo& site : sites) labels.push_back(site.label);
  return labels;
}

absl::Status NumberPlaces(BpfPrograms* programs, const std::vector<abi::pt_place>& places,
                          std::vector<ModulePlan>* modules) {
  std::vector<uint16_t> numbers;
  for (abi::pt_place place : places) {
    // `otherwise` is a place that comes before this one.
    if (place.otherwise != 0) {
      if (place.otherwise > numbers.size()) return Fail(ExitCode::kBug, "a place of no plan");
      place.otherwise = numbers[place.otherwise - 1];
    }
    const absl::StatusOr<uint16_t> number = programs->AddValuePlace(place);
    if (!number.ok()) return number.status();
    numbers.push_back(*number);
  }
  for (ModulePlan& module : *modules) {
    for (ProbePoint& point : module.points) {
      if (point.place == 0 || point.place > numbers.size()) continue;
      point.cookie |= PT_COOKIE_PLACE(numbers[point.place - 1]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint32_t> PlanRegistry::Add(ProbePlan* plan) {
  if (absl::Status status = NumberSignatures(programs_, plan); !status.ok()) return status;
  if (absl::Status status = NumberPlaces(programs_, plan->places, &plan->modules); !status.ok()) {
    return status;
  }
  std::vector<Label> labels = LabelsOf(plan->sites);
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = ids_.try_emplace(labels, static_cast<uint32_t>(ids_.size()) + 1);
  const uint32_t id = known->second;
  if (is_new) sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddPlan(id, labels); });
  return id;
}

PlanRegistry::Extended PlanRegistry::Extend(uint32_t id, const ProbePlan& plan,
                                            const ProbePlan& now) {
  const std::lock_guard lock(mutex_);
  ProbePlan whole = plan;
  if (const auto known = sites_.find(id); known != sites_.end()) whole.sites = known->second;
  std::optional<PlanExtension> more = ExtensionOf(whole, now);
  std::vector<uint16_t> numbers;
  if (!more || !NumberSignatures(programs_, now.signatures, &more->modules, &numbers).ok() ||
      !NumberRowInputs(programs_, now.row_inputs, numbers, &more->places).ok() ||
      !NumberPlaces(programs_, more->places, &more->modules).ok()) {
    return {};
  }
  sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddPlan(id, LabelsOf(more->sites)); });
  AddExtension(*more, now, &whole);
  sites_[id] = whole.sites;
  std::vector<ModulePlan> added(whole.modules.end() - static_cast<int64_t>(more->modules.size()),
                                whole.modules.end());
  return {std::make_shared<const ProbePlan>(std::move(whole)), std::move(added)};
}

}  // namespace proftrace
