// Writes a merged timeline in Perfetto's format: one machine per boot, one process for each process
// of an input, and arrows within and between ranks.
#pragma once

#include <memory>

#include "exporters/sinks/output_file.h"
#include "userspace/fleet/merge_writer.h"

namespace proftrace {

// `sink` and `scratch` must outlive the writer; the caller finishes the sink. The events of one
// part at a time are sorted by time, in `scratch` where there are too many for the memory.
std::unique_ptr<MergeWriter> NewPerfettoMerge(ByteSink& sink, const GuardedFolder& scratch);

}  // namespace proftrace
