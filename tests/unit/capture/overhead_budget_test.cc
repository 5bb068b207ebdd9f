#include "userspace/capture/cost/overhead_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace proftrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr BudgetCosts kCosts{/*recorded=*/2000, /*counted=*/1000, /*can_remove=*/true};
constexpr int64_t kLookNs = 250'000'000;

// As many calls as take `percent` of the look to record.
uint64_t Calls(double percent) {
  return static_cast<uint64_t>(percent / 100 * static_cast<double>(kLookNs) / kCosts.recorded);
}

OperatorLoad Load(uint16_t site, double percent, int64_t mean_ns,
                  DemotionRank rank = DemotionRank::kUsual) {
  const uint64_t calls = Calls(percent);
  return {site, calls, static_cast<int64_t>(calls) * mean_ns, rank};
}

// With nothing in it but what is recorded and counted.
BudgetLook Look(std::vector<OperatorLoad> recorded, std::vector<CountedLoad> counted = {}) {
  BudgetLook look;
  look.elapsed_ns = kLookNs;
  for (const OperatorLoad& load : recorded) {
    look.cost_ns += static_cast<double>(load.calls) * kCosts.recorded;
  }
  for (const CountedLoad& load : counted) {
    look.cost_ns += static_cast<double>(load.calls) * kCosts.counted;
  }
  look.recorded = std::move(recorded);
  look.counted = std::move(counted);
  return look;
}

std::vector<BudgetChange> LookTwice(OverheadBudget* budget, const BudgetLook& look) {
  EXPECT_THAT(budget->Look(look), IsEmpty()) << "one look says nothing";
  return budget->Look(look);
}

TEST(OverheadBudgetTest, DemotesNothingBelowTheBudget) {
  OverheadBudget budget(5, kCosts);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(budget.Look(Look({Load(1, 4.9, 1000)})), IsEmpty());
  }
  EXPECT_TRUE(budget.is_kept());
  EXPECT_FALSE(budget.is_exhausted());
  EXPECT_NEAR(*budget.before_percent(), 4.9, 0.01);
  EXPECT_NEAR(*budget.after_percent(), 4.9, 0.01);
}

TEST(OverheadBudgetTest, DemotesAsManyOfTheHottestAsItTakes) {
  OverheadBudget budget(5, kCosts);
  // 15.5 % in all, and 4.5 are aimed at: to count them all saves half of it.
  const auto changes = LookTwice(
      &budget, Look({Load(1, 4, 1000), Load(2, 6, 1000), Load(3, 5, 1000), Load(4, 0.5, 1000)}));
  EXPECT_THAT(
      changes,
      ElementsAre(BudgetChange{2, BudgetStep::kCount}, BudgetChange{3, BudgetStep::kCount},
                  BudgetChange{1, BudgetStep::kCount}, BudgetChange{4, BudgetStep::kCount}));
  EXPECT_NEAR(*budget.before_percent(), 15.5, 0.01);
  EXPECT_FALSE(budget.after_percent().has_value());
  EXPECT_FALSE(budget.is_kept()) << "nobody knows yet";
}

TEST(OverheadBudgetTest, StopsWhenThePredictedCostFits) {
  OverheadBudget budget(5, kCosts);
  const auto changes = LookTwice(&budget, Look({Load(1, 3, 1000), Load(2, 4, 1000)}));
  // 7 %, 2.5 too much: site 2 saves 2, site 1 1.5.
  EXPECT_THAT(changes, ElementsAre(BudgetChange{2, BudgetStep::kCount},
                                   BudgetChange{1, BudgetStep::kCount}));
  OverheadBudget other(5, kCosts);
  EXPECT_THAT(LookTwice(&other, Look({Load(1, 1, 1000), Load(2, 4.5, 1000)})),
              ElementsAre(BudgetChange{2, BudgetStep::kCount}));
}

TEST(OverheadBudgetTest, SmallOperatorsGoBeforeLargerOnesThatAreHotter) {
  OverheadBudget budget(5, kCosts);
  EXPECT_THAT(
      LookTwice(&budget, Look({Load(1, 4, 500'000), Load(2, 3, 5'000)})),
      ElementsAre(BudgetChange{2, BudgetStep::kCount}, BudgetChange{1, BudgetStep::kCount}));
}

TEST(OverheadBudgetTest, OfEqualsTheShorterGoesFirst) {
  OverheadBudget budget(5, kCosts);
  EXPECT_THAT(LookTwice(&budget, Look({Load(1, 2.6, 9'000), Load(2, 2.6, 3'000)})),
              ElementsAre(BudgetChange{2, BudgetStep::kCount}));
}

TEST(OverheadBudgetTest, RanksAreKept) {
  OverheadBudget budget(5, kCosts);
  const auto changes =
      LookTwice(&budget, Look({Load(1, 9, 1000, DemotionRank::kNever),
                               Load(2, 8, 1000, DemotionRank::kLast), Load(3, 2, 400'000)}));
  EXPECT_THAT(changes, ElementsAre(BudgetChange{3, BudgetStep::kCount},
                                   BudgetChange{2, BudgetStep::kCount}));
}

TEST(OverheadBudgetTest, LeavesAloneWhatSavesNextToNothing) {
  OverheadBudget budget(5, kCosts);
  EXPECT_THAT(LookTwice(&budget, Look({Load(1, 30, 1000), Load(2, 0.01, 1000)})),
              ElementsAre(BudgetChange{1, BudgetStep::kCount}));
}

TEST(OverheadBudgetTest, KeptIsWhatWasMeasuredAfterTheLastChange) {
  OverheadBudget budget(5, kCosts);
  ASSERT_FALSE(LookTwice(&budget, Look({Load(1, 8, 1000)})).empty());
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(budget.Look(Look({}, {{1, Calls(8)}})), IsEmpty());
  }
  EXPECT_TRUE(budget.is_kept());
  EXPECT_NEAR(*budget.before_percent(), 8, 0.01);
  EXPECT_NEAR(*budget.after_percent(), 4, 0.01);
}

TEST(OverheadBudgetTest, RemovesWhatIsStillTooMuchToCount) {
  OverheadBudget budget(5, kCosts);
  ASSERT_FALSE(LookTwice(&budget, Look({Load(1, 40, 1000), Load(2, 6, 1000)})).empty());
  const auto changes = LookTwice(&budget, Look({}, {{1, Calls(40)}, {2, Calls(6)}}));
  EXPECT_THAT(changes, ElementsAre(BudgetChange{1, BudgetStep::kRemove}));
  EXPECT_NEAR(*budget.before_percent(), 46, 0.01) << "until the first change";
}

TEST(OverheadBudgetTest, SaysWhenNothingIsLeftToDemote) {
  BudgetCosts costs = kCosts;
  costs.can_remove = false;
  OverheadBudget budget(5, costs);
  EXPECT_THAT(LookTwice(&budget, Look({Load(1, 9, 1000, DemotionRank::kNever)})), IsEmpty());
  EXPECT_TRUE(budget.is_exhausted());
  EXPECT_FALSE(budget.is_kept());
  EXPECT_NEAR(*budget.after_percent(), 9, 0.01);
  // Later there is less to do.
  for (int i = 0; i < 20; ++i) EXPECT_THAT(budget.Look(Look({})), IsEmpty());
  EXPECT_TRUE(budget.is_kept());
}

TEST(OverheadBudgetTest, IsAskedNothingByAJobThatStandsStill) {
  OverheadBudget budget(5, kCosts);
  EXPECT_FALSE(budget.before_percent().has_value());
  EXPECT_TRUE(budget.is_kept());
  for (int i = 0; i < 5; ++i) EXPECT_THAT(budget.Look(BudgetLook{kLookNs, 0, {}, {}}), IsEmpty());
  EXPECT_EQ(budget.after_percent(), 0);
}

}  // namespace
}  // namespace proftrace
