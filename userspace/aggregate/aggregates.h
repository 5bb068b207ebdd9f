// Everything that exporters show beside the spans themselves, computed once for all of them.
#pragma once

#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/key_averages.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct Aggregates {
  KeyAverages key_averages;
  FoldedStacks stacks;
  SpanCounts span_counts;
};

Aggregates Aggregate(const Timeline& timeline, const KeyAveragesOptions& options);

}  // namespace proftrace
