// Stretches of time: their union, what two unions have in common, how much of one lies in another.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace proftrace {

using Stretch = std::pair<int64_t, int64_t>;  // begin and end; the end is not part of it

// Stretches in order, without overlaps and without empty ones.
using Stretches = std::vector<Stretch>;

// Returns the time in which at least one of them was going on.
Stretches UnionOf(std::vector<Stretch> stretches);

// Returns the time that both have.
Stretches CommonOf(const Stretches& a, const Stretches& b);

// Returns how much of the time from `begin` to `end` they take.
int64_t LengthIn(const Stretches& stretches, int64_t begin, int64_t end);

}  // namespace proftrace
