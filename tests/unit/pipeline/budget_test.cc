#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/pipeline/timeline.h"

// What a capture says of a budget (--max-overhead), and what becomes of the demoted operators.

namespace proftrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Budget SomeBudget() {
  Budget budget;
  budget.max_overhead_percent = 5;
  budget.is_kept = true;
  budget.before_percent = 12.5;
  budget.after_percent = 4.25;
  budget.step_before_us = 1500;
  budget.demoted.push_back({Pid{RecordMaker::kPid}, 2, "aten::b", 100, 300, 0, 12345});
  return budget;
}

TEST(BudgetTest, IsKeptInTheFileAndTheLastOneCounts) {
  MetadataWriter writer;
  writer.AddBudget(Budget());
  writer.AddBudget(SomeBudget());
  CaptureMetadata metadata;
  ASSERT_TRUE(metadata.Merge(writer.TakeJson().front()).ok());
  ASSERT_TRUE(metadata.info.budget.has_value());
  const Budget& budget = *metadata.info.budget;
  EXPECT_EQ(budget.max_overhead_percent, 5);
  EXPECT_TRUE(budget.is_kept);
  EXPECT_EQ(budget.before_percent, 12.5);
  EXPECT_EQ(budget.after_percent, 4.25);
  EXPECT_EQ(budget.step_before_us, 1500);
  EXPECT_FALSE(budget.step_after_us.has_value());
  ASSERT_EQ(budget.demoted.size(), 1u);
  EXPECT_EQ(budget.demoted[0].pid, Pid{RecordMaker::kPid});
  EXPECT_EQ(budget.demoted[0].site, 2);
  EXPECT_EQ(budget.demoted[0].name, "aten::b");
  EXPECT_EQ(budget.demoted[0].since_ns, 100);
  EXPECT_EQ(budget.demoted[0].removed_ns, 300);
  EXPECT_EQ(budget.demoted[0].calls, 12345u);
}

TEST(BudgetTest, OfAForeignFileWhatFitsIsTaken) {
  CaptureMetadata metadata;
  ASSERT_TRUE(metadata
                  .Merge(R"([{"type":"budget","max_overhead_percent":"x","demoted":[1,{"site":70000,
                             "name":3,"since_ns":-4,"calls":1.5}]}])")
                  .ok());
  ASSERT_EQ(metadata.info.budget->demoted.size(), 1u);
  EXPECT_EQ(metadata.info.budget->demoted[0].site, 0);
  EXPECT_EQ(metadata.info.budget->demoted[0].since_ns, 0);
  EXPECT_EQ(metadata.info.budget->demoted[0].calls, 0u);
}

// Two calls of b are whole, one is open when b is demoted, the end of the fourth comes alone.
RecordMaker Demoted() {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Begin(1, 20, 2, 1);
  maker.End(1, 30, 2, 1);
  maker.Begin(1, 90, 2, 1);
  maker.End(1, 110, 2, 1);
  maker.End(1, 130, 2, 1);
  maker.End(1, 200, 1, 0);
  return maker;
}

TEST(BudgetTest, EndsOfCountedCallsAreNoLoss) {
  RecordMaker maker = Demoted();
  EXPECT_EQ(Build(maker)->ledger().unmatched_end, 1u);
  CaptureMetadata metadata = TestMetadata();
  metadata.info.budget = SomeBudget();
  const auto timeline = Build(maker, metadata);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
  EXPECT_EQ(timeline->ledger().closed, 3u);
  EXPECT_TRUE(timeline->ledger().ConservationHolds());
  EXPECT_FALSE(timeline->ledger().AnyLoss());
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::a>aten::b", "aten::a>aten::b"));
  EXPECT_EQ(timeline->span(SpanId{0}).self_ns, 190 - 10 - 20) << "counted calls are its own time";
}

TEST(BudgetTest, OtherEndsAreStillUnmatched) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.End(1, 50, 2, 1);   // before it was demoted
  maker.End(1, 130, 3, 1);  // another operator's
  maker.End(1, 200, 1, 0);
  CaptureMetadata metadata = TestMetadata();
  metadata.info.budget = SomeBudget();
  EXPECT_EQ(Build(maker, metadata)->ledger().unmatched_end, 2u);
  // The process has ended, and another one has its number.
  metadata.info.budget->demoted[0].until_ns = 120;
  RecordMaker demoted = Demoted();
  EXPECT_EQ(Build(demoted, metadata)->ledger().unmatched_end, 1u);
}

TEST(BudgetTest, DemotedOperatorsAreNamed) {
  CaptureMetadata metadata = TestMetadata();
  metadata.info.window.monotonic_to_unix_ns = 1;
  metadata.info.budget = SomeBudget();
  RecordMaker maker = Demoted();
  const auto timeline = Build(maker, metadata);
  ASSERT_EQ(timeline->info().unsupported.size(), 1u);
  EXPECT_THAT(timeline->info().unsupported[0].feature, HasSubstr("aten::b, 12345 calls from "));
  EXPECT_THAT(timeline->info().unsupported[0].feature, HasSubstr("not even counted"));
  EXPECT_THAT(timeline->info().unsupported[0].reason, HasSubstr("--max-overhead 5%"));
  EXPECT_FALSE(timeline->info().budget->is_of_longer);
}

TEST(BudgetTest, CallsCountedInALongerRecordingAreSaidToBeThat) {
  CaptureMetadata metadata = TestMetadata();
  metadata.info.window.monotonic_to_unix_ns = 1;
  metadata.info.budget = SomeBudget();
  metadata.is_part = true;
  RecordMaker maker = Demoted();
  const auto timeline = Build(maker, metadata);
  EXPECT_TRUE(timeline->info().budget->is_of_longer);
  EXPECT_THAT(timeline->info().unsupported[0].feature,
              HasSubstr("aten::b, 12345 calls of the whole recording from "));
}

}  // namespace
}  // namespace proftrace
