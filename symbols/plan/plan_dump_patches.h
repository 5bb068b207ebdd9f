// Shows, for plan_dump, how much of a plan could be patched (patch_windows.h).
#pragma once

#include "symbols/probe_plan.h"

namespace proftrace {

// Prints for each library how many points have a window, why the others have none, and what is free
// there. With `lists` each point, too, in a line of its own.
void PrintPatches(const ProbePlan& plan, bool lists);

}  // namespace proftrace
