// stacks_*.folded: one line a call path, "root;…;leaf WEIGHT", for FlameGraph, inferno, speedscope.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/stack_diff.h"

namespace proftrace {

// Times as whole microseconds whose sum is the rounded total: each path gets its own floor, and
// what is left goes to the largest remainders; bytes and counts as they are. Lines are sorted by
// their frames. Paths of weight 0 are left out. As in torch's export_stacks(), work of a device has
// no frame of its own: it is the time of what asked for it. Fails with kUsage where the weight was
// not recorded.
absl::Status ExportFolded(const FoldedStacks& stacks, StackWeight weight, ByteSink& sink);

// "root;…;leaf BEFORE AFTER", as FlameGraph's difffolded.pl writes and flamegraph.pl reads. Paths
// that are 0 in both are left out.
absl::Status ExportFoldedDiff(const StackDiff& diff, StackWeight weight, ByteSink& sink);

}  // namespace proftrace
