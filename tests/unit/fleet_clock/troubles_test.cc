// Clocks in trouble that nothing contradicts: what is told of their errors stays true.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/troubled_fleet.h"
#include "userspace/fleet_clock/clock_evenness.h"

namespace proftrace {
namespace {

constexpr int kMerges = 200;

struct TroubledSums {
  int solved = 0;
  int untrue = 0;
  std::vector<int64_t> bounds_ns;

  int64_t MedianBound() {
    std::sort(bounds_ns.begin(), bounds_ns.end());
    return bounds_ns[bounds_ns.size() / 2];
  }
};

TroubledSums SumOf(ClockTrouble trouble) {
  TroubledSums sums;
  for (uint64_t seed = 1; seed <= kMerges; ++seed) {
    const TroubledAnswer answer = CompareWithTruth(TroubledFleet(seed, trouble));
    sums.solved += answer.is_solved ? 1 : 0;
    sums.untrue += answer.worst_outside_ns > 0 ? 1 : 0;
    sums.bounds_ns.insert(sums.bounds_ns.end(), answer.bounds_ns.begin(), answer.bounds_ns.end());
  }
  return sums;
}

TEST(TroubledClocksTest, BoundsOfClocksWithoutTroubleAreTrueAndNotWide) {
  TroubledSums half = SumOf(ClockTrouble::kNone);
  TroubledSums all = SumOf(ClockTrouble::kNoneWatched);
  EXPECT_EQ(half.solved, kMerges);
  EXPECT_EQ(half.untrue, 0);
  EXPECT_EQ(all.untrue, 0);
  EXPECT_LT(half.MedianBound(), 2'500'000);
  EXPECT_LT(all.MedianBound(), 1'500'000);
}

TEST(TroubledClocksTest, BoundsOfSlewedAndStretchedClocksAreTrue) {
  for (const ClockTrouble trouble : {ClockTrouble::kSlew, ClockTrouble::kStretch}) {
    const TroubledSums sums = SumOf(trouble);
    EXPECT_GE(sums.solved, kMerges - 3);
    EXPECT_EQ(sums.untrue, 0);
  }
}

// A step in the first or the last collective leaves no end on its other side, and where a clock is
// set back, it shows the same times twice: both cannot be seen.
TEST(TroubledClocksTest, BoundsOfClocksThatJumpAreNearlyAlwaysTrue) {
  EXPECT_LE(SumOf(ClockTrouble::kStep).untrue, 2);
  EXPECT_LE(SumOf(ClockTrouble::kStepAtEdge).untrue, 4);
}

std::vector<EndDifference> EvenEnds(int count) {
  std::vector<EndDifference> ends;
  for (int i = 0; i < count; ++i) {
    const int64_t scatter_ns = (i * 7 % 5 - 2) * 1000;
    ends.push_back({i * 100'000'000, 5'000'000 + i * 2000 + scatter_ns});
  }
  return ends;
}

constexpr RateRange kAnyRate = {ClockRate::OfPpb(-1'500'000), ClockRate::OfPpb(1'500'000)};

TEST(ClockEvennessTest, ScatterOfEndsHidesAsMuch) {
  EXPECT_EQ(UnevennessByEnds({}, kAnyRate, false).edge_ns, 0);
  const int64_t hidden_ns = UnevennessByEnds(EvenEnds(40), kAnyRate, false).edge_ns;
  EXPECT_GT(hidden_ns, 2000);
  EXPECT_LT(hidden_ns, 12'000);
  EXPECT_EQ(UnevennessByEnds(EvenEnds(40), kAnyRate, true).edge_ns, 0);
}

TEST(ClockEvennessTest, StepsAreSeenAlsoAtTheEdgesAndLoneLateEndsAreNot) {
  for (const size_t first : {1U, 20U, 39U}) {
    std::vector<EndDifference> ends = EvenEnds(40);
    for (size_t i = first; i < ends.size(); ++i) ends[i].correction_ns -= 400'000;
    EXPECT_GT(UnevennessByEnds(ends, kAnyRate, false).edge_ns, 100'000) << first;
    EXPECT_GT(UnevennessByEnds(ends, kAnyRate, true).edge_ns, 100'000) << first;
  }
  std::vector<EndDifference> late = EvenEnds(40);
  late[20].correction_ns -= 400'000;
  EXPECT_LT(UnevennessByEnds(late, kAnyRate, false).edge_ns, 40'000);
}

TEST(ClockEvennessTest, StretchesThatNoClockHasAreSeenInFourEnds) {
  std::vector<EndDifference> ends = EvenEnds(4);
  for (size_t i = 0; i < ends.size(); ++i) {
    ends[i].correction_ns += static_cast<int64_t>(i) * 5'000'000;
  }
  EXPECT_GT(UnevennessByEnds(ends, kAnyRate, false).edge_ns, 7'000'000);
}

TEST(ClockEvennessTest, BroadcastsServeOnlyWhereThereIsNothingElse) {
  std::vector<EndDifference> ends = EvenEnds(40);
  ends[0].correction_ns -= 9'000'000;
  ends[0].is_of_all = false;
  EXPECT_LT(UnevennessByEnds(ends, kAnyRate, false).edge_ns, 12'000);
  for (EndDifference& end : ends) end.is_of_all = false;
  EXPECT_GT(UnevennessByEnds(ends, kAnyRate, false).edge_ns, 8'000'000);
}

}  // namespace
}  // namespace proftrace
