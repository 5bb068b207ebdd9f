// Which segments between a thread's markers make a round of its loop.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "userspace/steps/step_item.h"
#include "userspace/steps/step_rounds.h"

namespace proftrace {

std::vector<const Segment*> Pointers(const std::vector<Segment>& segments);

// Returns the segment that is most like the others; nullptr of none.
const Segment* Typical(const std::vector<const Segment*>& segments);

// How many segments make a round, and what speaks against it.
struct Rounds {
  size_t period = 1;
  std::string doubt;  // for people; empty: nothing
};

// Rounds have several segments where two optimizers take turns, one network is updated several
// times for one update of the other, or several updates have one batch.
Rounds FindRounds(std::span<const StepItem> items, const std::vector<Segment>& segments);

// Updates from data that a policy made just before: rounds begin where it acts. The segments that
// lead them sample, the others do not, and acting takes a good part of the time.
bool HasRollouts(const std::vector<Segment>& segments);

}  // namespace proftrace
