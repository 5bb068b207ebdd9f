// profile.pb.gz: call paths with every weight that was recorded, for `go tool pprof`
// (github.com/google/pprof, proto/profile.proto). A sample type each: `-sample_index` chooses.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes the message without compression; a sink for a name that ends in .gz compresses. A function
// is a name; Python's functions have their file and line. `first`: the weight that is shown unless
// another is chosen. Fails with kUsage where it was not recorded.
absl::Status ExportPprof(const Timeline& timeline, const FoldedStacks& stacks, StackWeight first,
                         ByteSink& sink);

}  // namespace proftrace
