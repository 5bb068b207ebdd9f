// Rates: how much faster one clock goes than another, in whole numbers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace proftrace {

// A rate in units of 2^-40, which is 0.9 parts in 10^12: over ten hours that is 33 ns.
struct ClockRate {
  int64_t value = 0;

  static constexpr int kShift = 40;
  static constexpr ClockRate OfPpb(int64_t ppb) {
    return {static_cast<int64_t>((static_cast<__int128>(ppb) << kShift) / 1'000'000'000)};
  }
  constexpr int64_t ppb() const {
    return static_cast<int64_t>((static_cast<__int128>(value) * 1'000'000'000) >> kShift);
  }
  friend constexpr auto operator<=>(ClockRate, ClockRate) = default;
};

// Return what a clock of that rate gains in `ns`, rounded down or up.
constexpr int64_t GainedFloor(ClockRate rate, int64_t ns) {
  return static_cast<int64_t>((static_cast<__int128>(rate.value) * ns) >> ClockRate::kShift);
}
constexpr int64_t GainedCeil(ClockRate rate, int64_t ns) { return -GainedFloor({-rate.value}, ns); }

// Returns the rate at which a clock gains `gain_ns` in `ns`, rounded down. `ns` must be above 0.
// Saturates.
constexpr ClockRate RateOf(int64_t gain_ns, int64_t ns) {
  const __int128 scaled = static_cast<__int128>(gain_ns) << ClockRate::kShift;
  const __int128 quotient = scaled / ns - (scaled % ns < 0 ? 1 : 0);
  constexpr __int128 kMost = INT64_MAX / 4;
  return {static_cast<int64_t>(std::clamp(quotient, -kMost, kMost))};
}

// A rate that is known to lie between two limits.
struct RateRange {
  ClockRate low;
  ClockRate high;

  // Return the least and the most that may be gained in `ns`, which may be negative.
  constexpr int64_t Least(int64_t ns) const { return GainedFloor(ns >= 0 ? low : high, ns); }
  constexpr int64_t Most(int64_t ns) const { return GainedCeil(ns >= 0 ? high : low, ns); }
};

}  // namespace proftrace
