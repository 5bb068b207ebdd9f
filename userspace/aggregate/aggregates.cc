#include "userspace/aggregate/aggregates.h"

namespace proftrace {

Aggregates Aggregate(const Timeline& timeline, const KeyAveragesOptions& options) {
  Aggregates aggregates;
  aggregates.key_averages = BuildKeyAverages(timeline, options);
  BuildFoldedStacks(timeline, &aggregates.stacks, &aggregates.span_counts);
  return aggregates;
}

}  // namespace proftrace
