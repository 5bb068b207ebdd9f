// Finds which Python stack belongs to a row of the backward pass, by torch.profiler's rule
// (torch/autograd/profiler_util.py, _set_backward_stacktraces): a node, and all that it runs, has
// that of the first row with its sequence number on the thread of its forward, or none. Rows of
// nodes do not count for that, nor those that events() leaves out; the engine's row around a node
// keeps its own stack, and counts.
#pragma once

#include <absl/status/status.h>

#include "userspace/model/timeline.h"

namespace proftrace {

// Gives backward rows the stacks of their forwards. To be called when all spans, their threads and
// their sequence numbers are there. Forward rows wait for their backward as in ForwardLinks, the
// oldest are forgotten.
absl::Status GiveForwardStacks(TimelineBuilder* timeline);

}  // namespace proftrace
