// A merged timeline in Perfetto's format: one machine a boot, one process for each process of an
// input, arrows within ranks and across them.
#pragma once

#include <memory>

#include "exporters/sinks/output_file.h"
#include "userspace/fleet/merge_writer.h"

namespace proftrace {

// `sink` and `scratch` must outlive the writer; the caller finishes the sink. The events of one
// part at a time are put in order, in `scratch` where they are too many for the memory.
std::unique_ptr<MergeWriter> NewPerfettoMerge(ByteSink& sink, const GuardedFolder& scratch);

}  // namespace proftrace
