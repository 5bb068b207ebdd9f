// Splits a call tree's CPU time by steps.
#pragma once

#include <vector>

#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/step_windows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Returns, by node of `stacks`, the count and the self CPU time of the complete spans that began in
// each window. Spans whose node was put together with others count for the node that stands for
// these. One pass over the spans.
std::vector<WindowShare> SumStackShares(const Timeline& timeline, const FoldedStacks& stacks,
                                        const StepWindows& windows);

}  // namespace proftrace
