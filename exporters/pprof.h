// profile.pb.gz: self time and number of spans by call path for `go tool pprof`
// (github.com/google/pprof, proto/profile.proto).
#pragma once

#include <absl/status/status.h>

#include "exporters/output_file.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The message without compression; a sink for a name that ends in .gz compresses. A function is a
// name; those of Python have their file and line.
absl::Status ExportPprof(const Timeline& timeline, const FoldedStacks& stacks, ByteSink& sink);

}  // namespace proftrace
