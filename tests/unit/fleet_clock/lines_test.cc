// Bounds by lines, against all rates tried one after the other.
#include "userspace/fleet_clock/line_bounds.h"

#include <gtest/gtest.h>

#include <random>

namespace proftrace {
namespace {

TEST(LineBoundsTest, ContainTheTruthAndAreWhatTheBestRateGives) {
  std::mt19937_64 random(1);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  constexpr ClockRate kWander = ClockRate::OfPpb(100);
  for (int round = 0; round < 200; ++round) {
    ClockPiece piece;
    piece.spacing_ns = 1'000'000'000;
    piece.rate = {ClockRate::OfPpb(-12'000), ClockRate::OfPpb(9'000)};
    const ClockRate truth = ClockRate::OfPpb(between(-11'000, 8'000));
    std::vector<int64_t> values;
    const int64_t knots = between(1, 20);
    for (int64_t knot = 0; knot < knots; ++knot) {
      values.push_back(5'000'000 + GainedFloor(truth, knot * piece.spacing_ns));
      piece.low_ns.push_back(values.back() - between(10'000, 900'000));
      piece.high_ns.push_back(values.back() + between(10'000, 900'000));
    }
    const ClockBounds bounds = BoundsByLines(piece, kWander);
    for (int64_t knot = 0; knot < knots; ++knot) {
      int64_t best_ns = -kNoBound;
      for (int64_t ppb = -11'900; ppb <= 8'900; ppb += 10) {
        int64_t high_ns = kNoBound;
        for (int64_t other = 0; other < knots; ++other) {
          const int64_t apart_ns = (knot - other) * piece.spacing_ns;
          high_ns =
              std::min(high_ns, piece.high_ns[other] + GainedCeil(ClockRate::OfPpb(ppb), apart_ns) +
                                    GainedCeil(kWander, std::abs(apart_ns)));
        }
        best_ns = std::max(best_ns, high_ns);
      }
      ASSERT_GE(bounds.high_ns[knot], values[knot]) << round;
      ASSERT_LE(bounds.low_ns[knot], values[knot]) << round;
      ASSERT_GE(bounds.high_ns[knot], best_ns) << round;
      ASSERT_LE(bounds.high_ns[knot], best_ns + 300) << round;  // 10 ppb over 20 s
    }
  }
}

}  // namespace
}  // namespace proftrace
