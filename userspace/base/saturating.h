// Adds and subtracts times and sizes from a file. The numbers of a real file do not overflow, but
// those of a hostile file can.
#pragma once

#include <cstdint>
#include <limits>

namespace proftrace {

// Returns a + b, or the nearest number that an int64_t holds.
constexpr int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

// Returns a - b, or the nearest number that an int64_t holds.
constexpr int64_t SaturatingDifference(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b < 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

}  // namespace proftrace
