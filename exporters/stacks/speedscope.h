// Writes profile.speedscope.json: call paths for https://www.speedscope.app, as sampled profiles of
// its file format (file-format-schema.json). There is one profile for each recorded weight. A
// profile has one sample for each path, root first, with its nanoseconds, bytes or number of spans.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes the profiles. `first`: the weight whose profile is shown first. Paths of weight 0 are left
// out. Fails with kUsage where `first` was not recorded.
absl::Status ExportSpeedscope(const Timeline& timeline, const FoldedStacks& stacks,
                              StackWeight first, ByteSink& sink);

}  // namespace proftrace
