// Computes the corrections of one piece of a clock between its knots.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "userspace/fleet_clock/clock_bounds.h"
#include "userspace/fleet_clock/clock_pieces.h"

namespace proftrace {

// Times are nanoseconds since the piece's from_ns. `values`: the corrections by knot. `piece` and
// `values` must outlive the object.
class PieceTimes {
 public:
  PieceTimes(const ClockPiece& piece, std::span<const int64_t> values)
      : piece_(piece), values_(values) {}

  // Returns the correction on the straight line between two knots; before the first and behind the
  // last knot, at the mean rate between these two.
  int64_t Correction(int64_t since_ns) const {
    const size_t count = values_.size();
    const int64_t first_ns = piece_.KnotAt(0);
    const int64_t last_ns = piece_.KnotAt(count - 1);
    const ClockRate rate = MeanRate();
    if (since_ns <= first_ns) return values_[0] + GainedFloor(rate, since_ns - first_ns);
    if (since_ns >= last_ns) return values_[count - 1] + GainedFloor(rate, since_ns - last_ns);
    const auto knot = static_cast<size_t>((since_ns - first_ns) / piece_.spacing_ns);
    const __int128 gain = values_[knot + 1] - values_[knot];
    const int64_t beyond_ns = since_ns - piece_.KnotAt(knot);
    // Rounded down, so that two times never change their order.
    return values_[knot] + FloorQuotient(gain * beyond_ns, piece_.spacing_ns);
  }
  // Return the upper and the lower bound of the correction.
  int64_t High(int64_t since_ns) const {
    int64_t high = kNoBound;
    ForKnotsAround(since_ns, [&](size_t knot) {
      if (piece_.high_ns[knot] >= kNoBound) return;
      high =
          std::min(high, piece_.high_ns[knot] + piece_.rate.Most(since_ns - piece_.KnotAt(knot)));
    });
    return high;
  }
  int64_t Low(int64_t since_ns) const {
    int64_t low = -kNoBound;
    ForKnotsAround(since_ns, [&](size_t knot) {
      if (piece_.low_ns[knot] <= -kNoBound) return;
      low = std::max(low, piece_.low_ns[knot] + piece_.rate.Least(since_ns - piece_.KnotAt(knot)));
    });
    return low;
  }
  ClockRate MeanRate() const {
    if (values_.size() > 1) {
      return RateOf(values_.back() - values_.front(),
                    piece_.spacing_ns * static_cast<int64_t>(values_.size() - 1));
    }
    return {(piece_.rate.low.value + piece_.rate.high.value) / 2};
  }

 private:
  static int64_t FloorQuotient(__int128 dividend, int64_t divisor) {
    const __int128 quotient = dividend / divisor;
    return static_cast<int64_t>(dividend % divisor < 0 ? quotient - 1 : quotient);
  }
  template <typename Visit>
  void ForKnotsAround(int64_t since_ns, Visit visit) const {
    const size_t knot = piece_.NearestKnot(since_ns);
    visit(knot);
    if (knot > 0) visit(knot - 1);
    if (knot + 1 < piece_.low_ns.size()) visit(knot + 1);
  }

  const ClockPiece& piece_;
  std::span<const int64_t> values_;
};

}  // namespace proftrace
