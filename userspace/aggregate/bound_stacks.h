// Names that never repeat (an annotation a request, functions that exec() makes) give each call a
// path of its own. So that files of stacks can be opened, those of the least weight are put
// together: what is left out below a node is one frame there, "… and 12345 others".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "userspace/aggregate/folded_stacks.h"
#include "userspace/model/name_limits.h"

namespace proftrace {

inline constexpr size_t kMostStackNodes = kMostNames;

// "… and 12345 others".
std::string OthersName(uint64_t count);

// Leaves the `most` nodes that have the largest share of any weight, and those of the others. What
// is left out counts for these: totals stay.
void BoundStacks(size_t most, FoldedStacks* stacks);

}  // namespace proftrace
