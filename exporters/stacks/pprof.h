// Writes profile.pb.gz: call paths with all recorded weights, for `go tool pprof`
// (github.com/google/pprof, proto/profile.proto). Each weight is a sample type, which
// `-sample_index` chooses.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes the message without compression, because the sink for a name that ends in .gz compresses.
// A function has a name; functions of Python also have file and line. `first`: the weight that is
// shown unless another one is chosen. Fails with kUsage where `first` was not recorded.
absl::Status ExportPprof(const Timeline& timeline, const FoldedStacks& stacks, StackWeight first,
                         ByteSink& sink);

}  // namespace proftrace
