// The loop of a job that has neither optimizer nor DataLoader: sequences of symbols that come back
// at even distances, as in inference and generation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "userspace/steps/step_item.h"

namespace proftrace {

struct PeriodicSequence {
  std::vector<uint32_t> symbols;  // comes once in a round; empty = nothing repeats
  double regularity = 0;          // the part of the time that is in rounds like the one before
  // Something else comes again and again, but less often than each round: a loop may lie around.
  bool may_be_inner = false;
};

// Returns the outermost loop of `items` that went round three times at least. A loop around it that
// only adds a look at values (logging every tenth round) is not taken for one.
PeriodicSequence FindPeriodicSequence(std::span<const StepItem> items);

}  // namespace proftrace
