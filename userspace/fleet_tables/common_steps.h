// Puts the numbers of the ranks' steps on one count. Each rank counts from when it was attached to;
// what ranks did together says which of their steps are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace proftrace {

// A rank, with the steps that it knows by its own numbers.
struct RankSteps {
  struct Step {
    int64_t number = 0;
    int64_t start_ns = 0;  // common time
    int64_t end_ns = 0;
  };
  struct Meeting {
    uint32_t moment = 0;  // what it did with others; any number that they have, too
    int64_t step = 0;     // in which of its own steps
  };

  std::vector<Step> steps;  // in order
  std::vector<Meeting> meetings;
};

// Returns what must be added to each rank's numbers: what most of its meetings ask for; where it
// has none with others, what its time does, else 0. The first rank that has steps keeps its own.
std::vector<int64_t> CommonStepOffsets(const std::vector<RankSteps>& ranks);

}  // namespace proftrace
