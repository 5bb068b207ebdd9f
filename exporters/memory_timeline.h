// torch's export_memory_timeline(): bytes over time by category, as JSON and as a page.
//
// What a tensor is for (parameter, gradient, activation, …) torch derives from which operator read
// and wrote which tensor; that is not seen from outside, so every byte is "Unknown" here. Blocks
// from before the window are not in it: it begins at 0.
#pragma once

#include <absl/status/status.h>

#include "exporters/output_file.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// [times, sizes]: times in microseconds since the Unix epoch, one each; sizes: a list for each
// time, 0 and then the bytes of torch's eight categories, the last one Unknown
// (torch/profiler/_memory_profiler.py). Of the first CUDA device, else of the CPU, all processes
// together. Fails with ExitCode::kUsage when memory was not recorded.
absl::Status ExportMemoryTimeline(const Timeline& timeline, ByteSink& sink);

// One self-contained page.
absl::Status ExportMemoryTimelineHtml(const Timeline& timeline, ByteSink& sink);

}  // namespace proftrace
