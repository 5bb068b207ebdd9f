// The bounds of clocks against an exact answer by other means, on random systems.
#include "userspace/fleet_clock/clock_bounds.h"

#include <gtest/gtest.h>

#include <random>

namespace proftrace {
namespace {

// A system that holds for the corrections `truth`.
struct TrueSystem {
  ConstraintSystem system;
  std::vector<int64_t> truth;
};

class RandomSystems {
 public:
  explicit RandomSystems(uint64_t seed) : random_(seed) {}

  TrueSystem Make() {
    TrueSystem made;
    const int clocks = static_cast<int>(Below(6)) + 2;
    std::vector<std::vector<uint32_t>> knots(clocks);
    for (int clock = 0; clock < clocks; ++clock) {
      const int64_t offset = clock == 0 ? 0 : Between(-1'000'000'000'000, 1'000'000'000'000);
      const int count = clock == 0 ? 1 : static_cast<int>(Below(3)) + 1;
      int64_t value = offset;
      for (int knot = 0; knot < count; ++knot) {
        if (knot > 0) {
          const int64_t gain = Between(-2000, 2000);
          made.system.steps.push_back({static_cast<uint32_t>(made.truth.size() - 1),
                                       gain - Between(0, 1500), gain + Between(0, 1500)});
          value += gain;
        }
        knots[clock].push_back(static_cast<uint32_t>(made.truth.size()));
        made.truth.push_back(value);
      }
    }
    made.system.knots = made.truth.size();
    made.system.reference = {0};
    const int moments = static_cast<int>(Below(30)) + 1;
    for (int moment = 0; moment < moments; ++moment) AddMoment(made, knots);
    return made;
  }

 private:
  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  uint64_t Below(uint64_t end) { return random_() % end; }

  void AddMoment(TrueSystem& made, const std::vector<std::vector<uint32_t>>& knots) {
    const int64_t at = Between(0, 60'000'000'000);
    const int kind = static_cast<int>(Below(4));  // 0 and 1: all on all; broadcast; reduce
    const auto root = static_cast<int>(Below(knots.size()));
    for (int clock = 0; clock < static_cast<int>(knots.size()); ++clock) {
      if (Below(5) == 0) continue;
      const uint32_t knot = knots[clock][Below(knots[clock].size())];
      MomentEdge edge = {knot};
      if (kind < 2 || (kind == 2) == (clock == root)) {
        edge.entered_ns = at - Between(0, 3'000'000) - made.truth[knot];
      }
      if (kind < 2 || (kind == 3) == (clock == root)) {
        edge.left_ns = at + Between(0, 3'000'000) - made.truth[knot];
      }
      made.system.edges.push_back(edge);
    }
    made.system.moment_ends.push_back(static_cast<uint32_t>(made.system.edges.size()));
  }

  std::mt19937_64 random_;
};

// Floyd's shortest paths over all pairs of events, without the moments in between: what a linear
// program over the corrections has as its least and greatest values.
ClockBounds PairwiseBounds(const ConstraintSystem& system) {
  const size_t n = system.knots;
  std::vector<std::vector<int64_t>> most(n, std::vector<int64_t>(n, kNoBound));  // r_i - r_j
  for (size_t i = 0; i < n; ++i) most[i][i] = 0;
  for (size_t moment = 0; moment < system.moments(); ++moment) {
    for (const MomentEdge& before : system.Moment(moment)) {
      for (const MomentEdge& after : system.Moment(moment)) {
        if (before.entered_ns == kNotEntered || after.left_ns == kNotLeft) continue;
        int64_t& cell = most[before.knot][after.knot];
        cell = std::min(cell, after.left_ns - before.entered_ns);
      }
    }
  }
  for (const KnotStep& step : system.steps) {
    int64_t& up = most[step.knot + 1][step.knot];
    up = std::min(up, step.most_ns);
    int64_t& down = most[step.knot][step.knot + 1];
    down = std::min(down, -step.least_ns);
  }
  for (size_t k = 0; k < n; ++k) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (most[i][k] >= kNoBound || most[k][j] >= kNoBound) continue;
        most[i][j] = std::min(most[i][j], most[i][k] + most[k][j]);
      }
    }
  }
  ClockBounds bounds;
  for (size_t i = 0; i < n; ++i) {
    bounds.high_ns.push_back(most[i][0]);
    bounds.low_ns.push_back(most[0][i] >= kNoBound ? -kNoBound : -most[0][i]);
  }
  return bounds;
}

TEST(ClockBoundsTest, EqualTheShortestPathsOverAllPairsOnTenThousandRandomSystems) {
  RandomSystems systems(1);
  for (int round = 0; round < 10'000; ++round) {
    const TrueSystem made = systems.Make();
    ClockBounds bounds;
    ASSERT_FALSE(SolveBounds(made.system, bounds)) << round;
    const ClockBounds exact = PairwiseBounds(made.system);
    ASSERT_EQ(bounds.low_ns, exact.low_ns) << round;
    ASSERT_EQ(bounds.high_ns, exact.high_ns) << round;
    for (size_t knot = 0; knot < made.truth.size(); ++knot) {
      ASSERT_LE(bounds.low_ns[knot], made.truth[knot]) << round;
      ASSERT_GE(bounds.high_ns[knot], made.truth[knot]) << round;
    }
  }
}

TEST(ClockBoundsTest, MidpointAndClosestToAnyWishAreFeasibleOnTenThousandRandomSystems) {
  RandomSystems systems(2);
  std::mt19937_64 random(3);
  for (int round = 0; round < 10'000; ++round) {
    const TrueSystem made = systems.Make();
    ClockBounds bounds;
    ASSERT_FALSE(SolveBounds(made.system, bounds)) << round;
    ASSERT_EQ(WorstViolation(made.system, bounds, Midpoints(bounds)), 0) << round;
    std::vector<int64_t> wish = made.truth;
    for (int64_t& value : wish) value += static_cast<int64_t>(random() % 8'000'000) - 4'000'000;
    const std::vector<int64_t> closest = ClosestFeasible(made.system, bounds, wish);
    ASSERT_EQ(WorstViolation(made.system, bounds, closest), 0) << round;
    ASSERT_EQ(closest[0], 0) << round;
    // What is feasible already stays.
    const std::vector<int64_t> same = ClosestFeasible(made.system, bounds, closest);
    for (size_t knot = 0; knot < same.size(); ++knot) {
      if (bounds.low_ns[knot] <= -kNoBound || bounds.high_ns[knot] >= kNoBound) continue;
      ASSERT_EQ(same[knot], closest[knot]) << round;
    }
  }
}

TEST(ClockBoundsTest, ContradictionNamesTheMomentsAndByHowMuch) {
  RandomSystems systems(4);
  int found = 0;
  for (int round = 0; round < 1000; ++round) {
    TrueSystem made = systems.Make();
    ClockBounds bounds;
    ASSERT_FALSE(SolveBounds(made.system, bounds));
    if (bounds.high_ns[1] >= kNoBound || bounds.low_ns[1] <= -kNoBound) continue;
    // Clock 1 must be 1000 ns less than it can be.
    made.system.edges.push_back({1, 0, kNotLeft});
    made.system.edges.push_back({0, kNotEntered, bounds.low_ns[1] - 1000});
    const auto bad = static_cast<uint32_t>(made.system.moments());
    made.system.moment_ends.push_back(static_cast<uint32_t>(made.system.edges.size()));
    const auto contradiction = SolveBounds(made.system, bounds);
    ASSERT_TRUE(contradiction) << round;
    ASSERT_GE(contradiction->excess_ns, 1000) << round;
    bool is_named = false;
    for (const ContradictionHop& hop : contradiction->hops) {
      is_named = is_named || hop.moment == bad;
    }
    ASSERT_TRUE(is_named) << round;
    ++found;
  }
  EXPECT_GT(found, 500);
}

TEST(ClockBoundsTest, OneWayBindsFromOneSide) {
  ConstraintSystem system;
  system.knots = 2;
  system.reference = {0};
  system.edges = {{0, 100, kNotLeft}, {1, kNotEntered, 50}};
  system.moment_ends = {2};
  ClockBounds bounds;
  ASSERT_FALSE(SolveBounds(system, bounds));
  EXPECT_EQ(bounds.low_ns[1], 50);
  EXPECT_EQ(bounds.high_ns[1], kNoBound);
}

}  // namespace
}  // namespace proftrace
