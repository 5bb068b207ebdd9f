// Writes a pickle in the form of torch.cuda.memory._snapshot(), which
// https://pytorch.org/memory_viz and torch.cuda._memory_viz read: a trace of allocations and frees
// for each device of each process. The frames of an entry are the operators that were open,
// innermost first, and then those of Python (--with-stack). Segments and frames of C++ are left
// empty, because they cannot be seen from outside of the process.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Fails with ExitCode::kUsage when memory was not recorded.
absl::Status ExportMemoryViz(const Timeline& timeline, ByteSink& sink);

}  // namespace proftrace
