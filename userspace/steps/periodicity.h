// Finds the loop of a job that has neither optimizer nor DataLoader, as in inference and
// generation: a sequence of symbols that comes again and again at even distances.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "userspace/steps/step_item.h"

namespace proftrace {

struct PeriodicSequence {
  // The sequence that comes once in each round; empty = nothing repeats.
  std::vector<uint32_t> symbols;
  double regularity = 0;  // the part of the time that lies in rounds like the one before
  // True: something else repeats too, but not in each round, so that another loop may lie around
  // this one.
  bool may_be_inner = false;
};

// Returns the outermost loop in `items` with at least three rounds. A loop around another one that
// only adds reading values (logging every tenth round) does not count as a loop.
PeriodicSequence FindPeriodicSequence(std::span<const StepItem> items);

}  // namespace proftrace
