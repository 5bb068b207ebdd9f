// Writes flamegraph.html, one page that shows the call tree. It is self-contained: it needs no
// network and no other file. The page's source is flamegraph_page/ (HTML, CSS, JavaScript), which
// embed_page.cmake builds into the program.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/stack_diff.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The facts that the page shows about a recording.
struct RecordingWords {
  std::string title;
  std::string subtitle;
  int64_t window_ns = 0;
  uint64_t incomplete_spans = 0;  // spans that are left out of the graph
  bool any_loss = false;
  std::optional<double> steps;  // steps of the job in the window
};

RecordingWords WordsOf(const Timeline& timeline, const Aggregates& aggregates);

// Writes the page with all recorded weights. `first`: the weight that the page opens with. Fails
// with kUsage where `first` was not recorded.
absl::Status ExportFlamegraph(const RecordingWords& words, const FoldedStacks& stacks,
                              StackWeight first, ByteSink& sink);

// Writes the differential graph. `words`: those of the later recording, which the page is about.
absl::Status ExportFlamegraphDiff(const RecordingWords& words, const RecordingWords& before,
                                  const StackDiff& diff, StackWeight first, ByteSink& sink);

}  // namespace proftrace
