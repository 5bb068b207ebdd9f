// torch's export_memory_timeline(): bytes over time by category, as JSON, raw, and as a page.
//
// torch derives what a tensor is for (parameter, gradient, activation, …) from which operator read
// and wrote which tensor; that is not seen from outside, so every byte is "Unknown" here. The CPU's
// curve begins at 0: it has no blocks from before the window.
//
// Each output shows one process and one device, as torch's do (memory_curves.h). `device`: "cpu" or
// "cuda:0", in the first process that has some; empty: the one that torch would take. All fail
// with ExitCode::kUsage when memory was not recorded, or none of that device.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "exporters/sinks/output_file.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes [times, sizes]: times in microseconds since the Unix epoch, one each; sizes: a list for
// each time, 0 and then the bytes of torch's eight categories, the last one Unknown
// (torch/profiler/_memory_profiler.py).
absl::Status ExportMemoryTimeline(const Timeline& timeline, const std::string& device,
                                  ByteSink& sink);

// Writes torch's raw form: [time, action, bytes, category] of each event, times in nanoseconds
// since the Unix epoch, -1 for what was there before.
absl::Status ExportMemoryTimelineRaw(const Timeline& timeline, const std::string& device,
                                     ByteSink& sink);

// Writes one self-contained page.
absl::Status ExportMemoryTimelineHtml(const Timeline& timeline, const std::string& device,
                                      ByteSink& sink);

// Says whose bytes these are, and what is left out: the lists have no place for it. Empty where
// there is no curve.
std::string MemoryTimelineNote(const Timeline& timeline, const std::string& device);

}  // namespace proftrace
