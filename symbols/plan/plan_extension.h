// The additions to a plan by libraries that the process has loaded after the plan was made.
#pragma once

#include <optional>
#include <vector>

#include "symbols/probe_plan.h"

namespace proftrace {

struct PlanExtension {
  std::vector<SiteInfo> sites;        // numbered from the plan's last site on
  std::vector<ModulePlan> modules;    // with the numbers of `sites` in their cookies
  std::vector<abi::pt_place> places;  // ProbePoint::place of `modules` refers to these
};

// Returns the modules that `now` has beyond `plan`. `now` is a new plan of the same process, or of
// one with the same files at the same addresses. nullopt: `plan` has all modules already, or has no
// numbers left for the new sites.
std::optional<PlanExtension> ExtensionOf(const ProbePlan& plan, const ProbePlan& now);

// Adds the extension to `plan`, and the places and signatures to which its points refer in `now`;
// there the points refer to the plan's own places and signatures.
void AddExtension(const PlanExtension& extension, const ProbePlan& now, ProbePlan* plan);

}  // namespace proftrace
