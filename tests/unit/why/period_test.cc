// The rhythm of slow steps, among others that are slow for other reasons.
#include "userspace/why/period.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace proftrace {
namespace {

constexpr int kTries = 200;

class PeriodTest : public testing::Test {
 protected:
  int64_t Number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }

  std::mt19937 random_{20261130};
};

TEST_F(PeriodTest, IsFoundAmongMoreStepsThatAreSlowByChance) {
  for (int i = 0; i < kTries; ++i) {
    const auto distance = static_cast<size_t>(Number(2, 50));
    const auto first = static_cast<size_t>(Number(0, static_cast<int64_t>(distance) - 1));
    std::vector<int64_t> excess(distance * static_cast<size_t>(Number(6, 40)));
    for (size_t step = 0; step < excess.size(); ++step) {
      const bool is_planted = step % distance == first;
      if (is_planted) excess[step] = Number(900, 1100);
      // One in ten of the others is slow, but by less: more steps than the planted ones.
      if (!is_planted && Number(0, 9) == 0) excess[step] = Number(10, 60);
    }
    const std::optional<Period> found = FindPeriod(excess);
    ASSERT_TRUE(found.has_value()) << distance;
    EXPECT_EQ(found->distance, distance);
    EXPECT_EQ(found->first, first);
  }
}

TEST_F(PeriodTest, IsFoundWhereAStepOfItIsFast) {
  std::vector<int64_t> excess(100);
  for (size_t step = 3; step < excess.size(); step += 10) excess[step] = 100;
  excess[53] = 0;
  const std::optional<Period> found = FindPeriod(excess);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->distance, 10u);
  EXPECT_TRUE(found->Has(53));
  EXPECT_FALSE(found->Has(54));
}

TEST_F(PeriodTest, StepsThatAreSlowByChanceHaveNone) {
  int found = 0;
  for (int i = 0; i < kTries; ++i) {
    std::vector<int64_t> excess(static_cast<size_t>(Number(40, 1000)));
    const int64_t one_in = Number(4, 12);
    for (int64_t& more : excess) more = Number(1, one_in) == 1 ? Number(100, 1000) : 0;
    // One step is far slower than all: that is no rhythm either.
    excess[static_cast<size_t>(Number(0, static_cast<int64_t>(excess.size()) - 1))] = 1'000'000;
    if (FindPeriod(excess)) ++found;
  }
  EXPECT_EQ(found, 0);
}

TEST_F(PeriodTest, TwoSlowStepsOrNoneHaveNone) {
  EXPECT_FALSE(FindPeriod({}).has_value());
  EXPECT_FALSE(FindPeriod(std::vector<int64_t>(100)).has_value());
  std::vector<int64_t> excess(20);
  excess[4] = excess[9] = 100;
  EXPECT_FALSE(FindPeriod(excess).has_value());
}

}  // namespace
}  // namespace proftrace
