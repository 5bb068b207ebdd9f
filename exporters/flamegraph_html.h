// flamegraph.html: one page that shows the call tree, with everything in it: no network, no other
// file. The page itself is flamegraph_page/ (HTML, CSS, JavaScript), built into the program by
// embed_page.cmake.
#pragma once

#include <absl/status/status.h>

#include "exporters/output_file.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// `incomplete_spans`: left out of the graph, which says so.
absl::Status ExportFlamegraph(const Timeline& timeline, const FoldedStacks& stacks,
                              uint64_t incomplete_spans, ByteSink& sink);

}  // namespace proftrace
