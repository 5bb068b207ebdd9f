// What records of system activity cost, from loops with and without them.
#include "userspace/capture/kernel/system_cost.h"

#include <gtest/gtest.h>

namespace proftrace {
namespace {

TEST(SystemCostTest, IsWhatTheLoopsTakeMore) {
  const LoopTimes plain{.call_ns = 100, .fault_ns = 1'400};
  const LoopTimes recorded{.call_ns = 260, .fault_ns = 2'300};
  const SystemCost cost = CostOfRecords(plain, recorded, {600, 500, 90'000});
  EXPECT_EQ(cost.call, 160);
  EXPECT_EQ(cost.fault, 900);
  EXPECT_EQ(cost.fault_beside, 800);
}

TEST(SystemCostTest, IsNeverLessThanNothing) {
  const LoopTimes plain{.call_ns = 100, .fault_ns = 1'400};
  const LoopTimes faster{.call_ns = 90, .fault_ns = 1'300};
  const SystemCost cost = CostOfRecords(plain, faster, {1'500});
  EXPECT_EQ(cost.call, 0);
  EXPECT_EQ(cost.fault, 0);
  EXPECT_EQ(cost.fault_beside, 0);
}

TEST(SystemCostTest, HasNoPartsThatWereNotMeasured) {
  const SystemCost cost = CostOfRecords({.call_ns = 100}, {.call_ns = 150}, {});
  EXPECT_EQ(cost.call, 50);
  EXPECT_EQ(cost.fault, 0);
  EXPECT_EQ(cost.fault_beside, 0);
  const SystemCost without_records = CostOfRecords({.fault_ns = 10}, {.fault_ns = 30}, {});
  EXPECT_EQ(without_records.fault, 20);
  EXPECT_EQ(without_records.fault_beside, 0);
}

TEST(SystemCostTest, LoopsThatNobodyAskedForDoNotRun) {
  const LoopTimes times = TimeLoops(/*calls=*/false, /*faults=*/true);
  EXPECT_FALSE(times.call_ns.has_value());
  ASSERT_TRUE(times.fault_ns.has_value());
  EXPECT_GT(*times.fault_ns, 0);
}

}  // namespace
}  // namespace proftrace
