// Jumps where no probe of the kernel can help out: a row's begin without its end, or one of several
// ends, would be worse than neither.
#pragma once

#include "symbols/probe_plan.h"
#include "userspace/patch/plan_spots.h"

namespace proftrace {

// Leaves sites alone of which a point is unpatched, and binds the spots of each other site together
// (PatchSpot::group).
void KeepWholeSites(const ProbePlan& plan, PlanSpots* spots);

}  // namespace proftrace
