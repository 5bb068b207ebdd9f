// Writes a merged timeline as Chrome JSON: one stream of events, rank by rank.
#pragma once

#include <memory>

#include "exporters/sinks/output_file.h"
#include "userspace/fleet/merge_writer.h"

namespace proftrace {

// `sink` must outlive the writer. The caller finishes the sink.
std::unique_ptr<MergeWriter> NewChromeMerge(ByteSink& sink);

}  // namespace proftrace
