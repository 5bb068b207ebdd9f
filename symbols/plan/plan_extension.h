// What libraries that a process loaded after its plan was made add to the plan.
#pragma once

#include <optional>
#include <vector>

#include "symbols/probe_plan.h"

namespace proftrace {

struct PlanExtension {
  std::vector<SiteInfo> sites;        // numbered from the plan's last site on
  std::vector<ModulePlan> modules;    // with those numbers in their cookies
  std::vector<abi::pt_place> places;  // what ProbePoint::place of `modules` counts
};

// Returns what `now` has beyond `plan`. `now`: a plan of the same process, or of one with the same
// files at the same addresses, made anew. nullopt: `plan` has all of its modules, or has no numbers
// left for its sites.
std::optional<PlanExtension> ExtensionOf(const ProbePlan& plan, const ProbePlan& now);

// Adds the extension to `plan`, with what its modules refer to in `now`: in `plan` their points
// count the plan's places and signatures.
void AddExtension(const PlanExtension& extension, const ProbePlan& now, ProbePlan* plan);

}  // namespace proftrace
