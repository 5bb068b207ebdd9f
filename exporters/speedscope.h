// profile.speedscope.json: self time by call path for https://www.speedscope.app, as a sampled
// profile of its file format (file-format-schema.json): one sample a path, root first, with its
// nanoseconds.
#pragma once

#include <absl/status/status.h>

#include "exporters/output_file.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Paths without self time are left out.
absl::Status ExportSpeedscope(const Timeline& timeline, const FoldedStacks& stacks, ByteSink& sink);

}  // namespace proftrace
