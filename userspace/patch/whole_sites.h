// Keeps jumps only where all points of a row can have one. This is needed where no probe of the
// kernel can help out: a row with its begin but not its end, or with one of several ends, would be
// worse than no row.
#pragma once

#include "symbols/probe_plan.h"
#include "userspace/patch/plan_spots.h"

namespace proftrace {

// Drops all spots of a site with an unpatched point. Makes the spots of each other site one group
// (PatchSpot::group); all sites that share the places of their ends are one group.
void KeepWholeSites(const ProbePlan& plan, PlanSpots* spots);

}  // namespace proftrace
