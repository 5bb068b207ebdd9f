// Finds the rhythm of what happens in some of a row of steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace proftrace {

// The steps `first`, `first + distance`, and so on.
struct Period {
  size_t distance = 0;
  size_t first = 0;

  bool Has(size_t step) const { return step % distance == first; }
};

// Returns the rhythm in which steps have an excess, where other steps may have some as well, for
// reasons of their own. `excess`: by step, how much more it has than usual; 0: nothing. Nearly all
// steps of the period have an excess, five of them at least (three, where no other step has one),
// and they have most of it all. Only
// distances from 2 to 1000 are looked at. nullopt: there is none.
std::optional<Period> FindPeriod(const std::vector<int64_t>& excess);

}  // namespace proftrace
