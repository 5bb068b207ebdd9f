// Two recordings' stacks in one tree, for differential flame graphs.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/folded_stacks.h"

namespace proftrace {

struct StackDiff {
  // All paths of both recordings. Names, counts and values are the later one's; a path that only
  // the earlier one has, has counts and values of 0. Only weights that both recorded.
  FoldedStacks after;
  // The earlier recording's, of the same weights and nodes.
  std::vector<StackValues> before;
  std::vector<uint64_t> before_counts;  // StackNode::count, by node
};

// Paths are paired by the names and kinds of their frames. A function of Python whose first line
// moved is still paired, by its file and name; of several functions of one name in a file, those
// that have moved are paired in the order of their lines if both recordings have as many of them.
// The totals of each side are those of the recording alone.
StackDiff DiffStacks(const FoldedStacks& before, const FoldedStacks& after);

}  // namespace proftrace
