// Finds which segments between a thread's markers make a round of its loop.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "userspace/steps/step_item.h"
#include "userspace/steps/step_rounds.h"

namespace proftrace {

std::vector<const Segment*> Pointers(const std::vector<Segment>& segments);

// Returns the segment that is most like the others; nullptr: there are no segments.
const Segment* Typical(const std::vector<const Segment*>& segments);

// How many segments make a round, and the doubt about it.
struct Rounds {
  size_t period = 1;
  std::string doubt;  // a text for users; empty: there is no doubt
};

// Finds how many segments make a round. There are several where two optimizers take turns, where
// one network is updated several times for one update of the other, or where several updates use
// the same batch.
Rounds FindRounds(std::span<const StepItem> items, const std::vector<Segment>& segments);

// Returns whether the job updates from data that a policy made just before, so that rounds begin
// where the policy acts: the first segment of each round samples, the others do not, and acting
// takes a good part of the time.
bool HasRollouts(const std::vector<Segment>& segments);

}  // namespace proftrace
