#include "userspace/cli/step_schedule.h"

#include <gtest/gtest.h>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

RecordedSteps Steps(int count) {
  RecordedSteps steps;
  for (int i = 0; i < count; ++i) steps.intervals.emplace_back(i * 100, i * 100 + 100);
  return steps;
}

TEST(StepScheduleTest, CyclesAreTorchs) {
  const absl::StatusOr<StepSchedule> schedule =
      ParseSchedule("skip_first=2,wait=3,warmup=1,active=2,repeat=2");
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(schedule->TotalSteps(), 14u);
  const std::vector<CapturePart> cycles = Cycles(*schedule, Steps(30));
  ASSERT_EQ(cycles.size(), 2u);
  EXPECT_EQ(cycles[0].steps.first_number, 6);
  EXPECT_EQ(cycles[0].start_ns, 600);
  EXPECT_EQ(cycles[0].end_ns, 800);
  EXPECT_EQ(cycles[1].steps.first_number, 12);
  EXPECT_EQ(cycles[1].steps.intervals.size(), 2u);
}

// torch/profiler/profiler.py (2.11), schedule().
TEST(StepScheduleTest, TheFirstWaitMayBeSkipped) {
  const absl::StatusOr<StepSchedule> schedule =
      ParseSchedule("skip_first=2,wait=3,warmup=1,active=2,repeat=2,skip_first_wait=1");
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(schedule->TotalSteps(), 11u);
  const std::vector<CapturePart> cycles = Cycles(*schedule, Steps(30));
  ASSERT_EQ(cycles.size(), 2u);
  EXPECT_EQ(cycles[0].steps.first_number, 3);
  EXPECT_EQ(cycles[1].steps.first_number, 9);
  EXPECT_EQ(ParseSchedule("wait=3,active=1,repeat=1,skip_first_wait=0")->TotalSteps(), 4u);
}

TEST(StepScheduleTest, GoesOnWithoutRepeatAndKeepsWhatThereIsOfTheLastCycle) {
  const absl::StatusOr<StepSchedule> schedule = ParseSchedule("active=4,wait=1");
  ASSERT_TRUE(schedule.ok());
  EXPECT_FALSE(schedule->TotalSteps().has_value());
  const std::vector<CapturePart> cycles = Cycles(*schedule, Steps(8));
  ASSERT_EQ(cycles.size(), 2u);
  EXPECT_EQ(cycles[1].steps.intervals.size(), 2u);
  EXPECT_TRUE(Cycles(*schedule, Steps(1)).empty());
}

TEST(StepScheduleTest, WrongOnesAreRefused) {
  for (const char* text :
       {"", "active", "active=", "active=0", "wait=1", "active=1,active=2", "active=-1",
        "active=1x", "actve=1", "active=1,", "active=99999999999"}) {
    EXPECT_EQ(ExitCodeOf(ParseSchedule(text).status()), ExitCode::kUsage) << text;
  }
}

}  // namespace
}  // namespace proftrace
