// Stretches of time: their union, the time that two unions have in common, and how much of a given
// time they cover.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace proftrace {

using Stretch = std::pair<int64_t, int64_t>;  // begin and end; the end is not part of it

// Stretches in order, without overlaps and without empty ones.
using Stretches = std::vector<Stretch>;

// Returns the time that at least one of `stretches` covers.
Stretches UnionOf(std::vector<Stretch> stretches);

// Returns the time that both cover.
Stretches CommonOf(const Stretches& a, const Stretches& b);

// Returns the sum of their lengths.
int64_t LengthOf(const Stretches& stretches);

// Returns how much of the time from `begin` to `end` the stretches cover.
int64_t LengthIn(const Stretches& stretches, int64_t begin, int64_t end);

}  // namespace proftrace
