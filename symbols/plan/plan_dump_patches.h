// Shows, for plan_dump, how much of a plan could be patched (patch_windows.h).
#pragma once

#include "symbols/probe_plan.h"

namespace proftrace {

// Prints for each library how many points have a window, why the others have none, and which
// registers are free there. With `lists`, prints each point in a line of its own, too.
void PrintPatches(const ProbePlan& plan, bool lists);

}  // namespace proftrace
