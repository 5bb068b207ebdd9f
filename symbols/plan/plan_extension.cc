#include "symbols/plan/plan_extension.h"

#include <algorithm>
#include <map>
#include <utility>

namespace proftrace {
namespace {

constexpr uint64_t kSiteBits = 0xffff;

bool Has(const ProbePlan& plan, const ModulePlan& module) {
  return std::any_of(plan.modules.begin(), plan.modules.end(), [&module](const ModulePlan& known) {
    // The kernel's probes of a file fire in both places where a process has loaded it twice.
    return known.file == module.file;
  });
}

// Gives the sites and places of new modules numbers behind those of the plan.
class Renumbering {
 public:
  Renumbering(const ProbePlan& plan, const ProbePlan& now, PlanExtension* extension)
      : plan_(plan), now_(now), extension_(extension) {}

  void Apply(std::vector<ProbePoint>* points) {
    for (ProbePoint& point : *points) {
      point.cookie = (point.cookie & ~kSiteBits) | Site(point.cookie & kSiteBits);
      if (point.place == 0 || point.place > now_.places.size()) continue;
      abi::pt_place place = now_.places[point.place - 1];
      if (place.otherwise != 0 && place.otherwise <= now_.places.size()) {
        extension_->places.push_back(now_.places[place.otherwise - 1]);
        place.otherwise = static_cast<uint16_t>(extension_->places.size());
      }
      extension_->places.push_back(place);
      point.place = static_cast<uint16_t>(extension_->places.size());
    }
  }

 private:
  uint64_t Site(uint64_t site) {
    if (site == 0 || site >= now_.sites.size()) return 0;
    // All memory probes have one site.
    if (site == now_.memory_site && plan_.memory_site != 0) return plan_.memory_site;
    const auto [it, is_new] =
        numbers_.try_emplace(site, plan_.sites.size() + extension_->sites.size());
    if (is_new) extension_->sites.push_back(now_.sites[site]);
    return it->second;
  }

  const ProbePlan& plan_;
  const ProbePlan& now_;
  PlanExtension* extension_;
  std::map<uint64_t, uint64_t> numbers_;
};

}  // namespace

std::optional<PlanExtension> ExtensionOf(const ProbePlan& plan, const ProbePlan& now) {
  PlanExtension extension;
  Renumbering renumbering(plan, now, &extension);
  for (const ModulePlan& module : now.modules) {
    if (Has(plan, module)) continue;
    ModulePlan added = module;
    renumbering.Apply(&added.points);
    renumbering.Apply(&added.cost_points);
    extension.modules.push_back(std::move(added));
  }
  if (extension.modules.empty() || plan.sites.size() + extension.sites.size() > kMaxSites) {
    return std::nullopt;
  }
  return extension;
}

void AddExtension(const PlanExtension& extension, const ProbePlan& now, ProbePlan* plan) {
  plan->sites.insert(plan->sites.end(), extension.sites.begin(), extension.sites.end());
  const auto first = static_cast<uint16_t>(plan->places.size());
  for (abi::pt_place place : extension.places) {
    if (place.otherwise != 0) place.otherwise = static_cast<uint16_t>(first + place.otherwise);
    plan->places.push_back(place);
  }
  std::map<uint16_t, uint16_t> signatures;
  for (ModulePlan module : extension.modules) {
    for (std::vector<ProbePoint>* points : {&module.points, &module.cost_points}) {
      for (ProbePoint& point : *points) {
        if (point.place != 0) point.place = static_cast<uint16_t>(first + point.place);
        if (point.signature == 0 || point.signature > now.signatures.size()) continue;
        const auto [it, is_new] = signatures.try_emplace(
            point.signature, static_cast<uint16_t>(plan->signatures.size() + 1));
        if (is_new) plan->signatures.push_back(now.signatures[point.signature - 1]);
        point.signature = it->second;
      }
    }
    plan->modules.push_back(std::move(module));
  }
}

}  // namespace proftrace
