// Makes the step numbers of all ranks agree. Each rank counts its steps from the moment when
// proftrace attached to it. The collectives of the ranks show which of their steps are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace proftrace {

// A rank with its steps, by its own step numbers.
struct RankSteps {
  struct Step {
    int64_t number = 0;
    int64_t start_ns = 0;  // common time
    int64_t end_ns = 0;
  };
  struct Meeting {
    uint32_t moment = 0;  // the number of a collective; the other ranks have the same number for it
    int64_t step = 0;     // the rank's own step in which the collective was
  };

  std::vector<Step> steps;  // in order
  std::vector<Meeting> meetings;
};

// Returns what must be added to each rank's step numbers: the value that most of its meetings ask
// for; without a meeting with other ranks, the value that the times of its steps suggest; else 0.
// The first rank that has steps keeps its numbers.
std::vector<int64_t> CommonStepOffsets(const std::vector<RankSteps>& ranks);

}  // namespace proftrace
