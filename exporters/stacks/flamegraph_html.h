// flamegraph.html: one page that shows the call tree, with everything in it: no network, no other
// file. The page itself is flamegraph_page/ (HTML, CSS, JavaScript), built into the program by
// embed_page.cmake.
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

// What the page says of a recording.
struct RecordingWords {
  std::string title;
  std::string subtitle;
  int64_t window_ns = 0;
  uint64_t incomplete_spans = 0;  // left out of the graph
  bool any_loss = false;
  std::optional<double> steps;  // of the job, in the window
};

RecordingWords WordsOf(const Timeline& timeline, const Aggregates& aggregates);

// `first`: the weight that the page opens with; it has all that were recorded. Fails with kUsage
// where `first` was not.
absl::Status ExportFlamegraph(const RecordingWords& words, const FoldedStacks& stacks,
                              StackWeight first, ByteSink& sink);

// Writes the differential graph. `words`: the later recording's, which the page is about.
absl::Status ExportFlamegraphDiff(const RecordingWords& words, const RecordingWords& before,
                                  const StackDiff& diff, StackWeight first, ByteSink& sink);

}  // namespace proftrace
