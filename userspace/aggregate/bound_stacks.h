// Names that never repeat (an annotation for each request, functions that exec() makes) give each
// call a path of its own. So that files of stacks stay small enough to be opened, the paths of
// least weight are put together: those that are left out below a node become one frame there, "…
// and 12345 others".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "userspace/aggregate/folded_stacks.h"
#include "userspace/model/name_limits.h"

namespace proftrace {

inline constexpr size_t kMostStackNodes = kMostNames;

// Returns the name of a frame that stands for others: "… and 12345 others".
std::string OthersName(uint64_t count);

// Keeps the `most` nodes with the largest share of any weight, and adds nodes that stand for the
// others. Weights of nodes that are left out count for these, so that totals stay the same.
void BoundStacks(size_t most, FoldedStacks* stacks);

}  // namespace proftrace
