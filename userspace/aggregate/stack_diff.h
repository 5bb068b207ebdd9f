// Joins the stacks of two recordings to one tree, for differential flame graphs.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/folded_stacks.h"

namespace proftrace {

struct StackDiff {
  // All paths of both recordings, with the names, counts and values of the later one, and with the
  // weights that both recorded. A path that only the earlier recording has, has counts and values
  // of 0.
  FoldedStacks after;
  // The earlier recording's values for the same weights and nodes.
  std::vector<StackValues> before;
  std::vector<uint64_t> before_counts;  // StackNode::count, by node
};

// Joins two trees. Paths are paired by the names and kinds of their frames. A function of Python
// whose first line moved is still paired, by its file and name. Where several functions of the same
// name in a file have moved, they are paired in the order of their lines if both recordings have
// the same number of them. The totals of each side stay those of its recording.
StackDiff DiffStacks(const FoldedStacks& before, const FoldedStacks& after);

}  // namespace proftrace
