// torch's export_memory_timeline(): bytes over time by category, as JSON, raw, and as a page.
//
// torch derives the category of a tensor (parameter, gradient, activation, …) from the operators
// that read and wrote it. This cannot be seen from outside of the process, so every byte is
// "Unknown" here. The CPU's curve begins at 0: it has no blocks from before the window.
//
// Each output shows one process and one device, as torch's do (memory_curves.h). `device`: "cpu" or
// "cuda:0", of the first process with memory there; empty: the device that torch would choose. All
// functions fail with ExitCode::kUsage where memory was not recorded, or no memory of the device
// was.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "exporters/sinks/output_file.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes [times, sizes]: times are in microseconds since the Unix epoch; sizes has a list for each
// time: 0 and then the bytes of torch's eight categories, the last one Unknown
// (torch/profiler/_memory_profiler.py).
absl::Status ExportMemoryTimeline(const Timeline& timeline, const std::string& device,
                                  ByteSink& sink);

// Writes torch's raw form: [time, action, bytes, category] of each event, times in nanoseconds
// since the Unix epoch, -1 for blocks that were there before the first event.
absl::Status ExportMemoryTimelineRaw(const Timeline& timeline, const std::string& device,
                                     ByteSink& sink);

// Writes one self-contained page.
absl::Status ExportMemoryTimelineHtml(const Timeline& timeline, const std::string& device,
                                      ByteSink& sink);

// Returns a note for users, for which the lists have no place: whose bytes these are, and what is
// left out. Empty where there is no curve.
std::string MemoryTimelineNote(const Timeline& timeline, const std::string& device);

}  // namespace proftrace
