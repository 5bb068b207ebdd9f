// Finds which Python stack belongs to a row of the backward pass, by torch.profiler's rule
// (torch/autograd/profiler_util.py, _set_backward_stacktraces): a node and all rows in it get the
// stack of the first row with the node's sequence number on the thread of the forward pass, or no
// stack where there is no such row. Rows of nodes and rows that events() leaves out do not count as
// that first row. The engine's row around a node keeps its own stack, and may be the first row.
#pragma once

#include <absl/status/status.h>

#include "userspace/model/timeline.h"

namespace proftrace {

// Gives backward rows the stacks of their forwards. To be called when all spans, their threads and
// their sequence numbers are known. Forward rows are kept until their backward rows come, as in
// ForwardLinks; the oldest are forgotten.
absl::Status GiveForwardStacks(TimelineBuilder* timeline);

}  // namespace proftrace
