// Writes stacks_*.folded: one line for each call path, "root;…;leaf WEIGHT", for FlameGraph,
// inferno and speedscope.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/stack_diff.h"

namespace proftrace {

// Writes the paths. Times are whole microseconds whose sum is the rounded total: each time is
// rounded down, and the rest goes to the largest remainders. Bytes and counts are written as they
// are. Lines are sorted by their frames. Paths of weight 0 are left out. As in torch's
// export_stacks(), work of a device has no frame of its own: its time counts for the row that asked
// for it. Fails with kUsage where the weight was not recorded.
absl::Status ExportFolded(const FoldedStacks& stacks, StackWeight weight, ByteSink& sink);

// Writes lines "root;…;leaf BEFORE AFTER", as FlameGraph's difffolded.pl writes and flamegraph.pl
// reads them. Paths that weigh 0 in both recordings are left out.
absl::Status ExportFoldedDiff(const StackDiff& diff, StackWeight weight, ByteSink& sink);

}  // namespace proftrace
