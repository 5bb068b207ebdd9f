// stacks_self_cpu.folded: one line a call path, "root;…;leaf MICROSECONDS", for FlameGraph,
// inferno, speedscope.
#pragma once

#include <absl/status/status.h>

#include "exporters/output_file.h"
#include "userspace/aggregate/folded_stacks.h"

namespace proftrace {

// Lines are sorted by their frames. The weights are whole microseconds whose sum is the rounded
// total: each path gets its own floor, and what is left goes to the largest remainders. Paths of
// weight 0 are left out.
absl::Status ExportFolded(const FoldedStacks& stacks, ByteSink& sink);

}  // namespace proftrace
