// stacks_self_cpu.folded: one line a call path, "root;…;leaf WEIGHT", for FlameGraph, inferno,
// speedscope.
#pragma once

#include <absl/status/status.h>

#include "exporters/output_file.h"
#include "userspace/aggregate/folded_stacks.h"

namespace proftrace {

enum class FoldedWeight {
  // Self time, as whole microseconds whose sum is the rounded total: each path gets its own floor,
  // and what is left goes to the largest remainders.
  kMicroseconds,
  kCount,  // of spans
};

// Lines are sorted by their frames. Paths of weight 0 are left out.
absl::Status ExportFolded(const FoldedStacks& stacks, ByteSink& sink,
                          FoldedWeight weight = FoldedWeight::kMicroseconds);

}  // namespace proftrace
