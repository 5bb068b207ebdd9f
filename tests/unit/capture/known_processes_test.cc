#include "userspace/capture/processes/known_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Pid kJob{100};
constexpr Pid kChild{101};
constexpr Pid kGrandchild{102};

class KnownProcessesTest : public ::testing::Test {
 protected:
  KnownProcessesTest() { known_.BeginWindow(1000); }

  PlannedImage EnterJob() {
    PlannedImage image;
    image.plan = std::make_shared<const ProbePlan>();
    image.image = known_.NewImage(*image.plan);
    image.plan_id = 7;
    known_.Enter(kJob, image);
    return image;
  }

  GapList gaps_;
  // The reader is for looks into processes alone, and nothing looks here.
  KnownProcesses known_{/*reader=*/nullptr, &gaps_};
};

TEST_F(KnownProcessesTest, ForkedChildIsRecordedByItsParentsPlan) {
  const PlannedImage job = EnterJob();
  const auto child = known_.EnterFork(kJob, kChild, /*is_over=*/false);
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(child->plan, job.plan);
  EXPECT_EQ(child->image, job.image);
  EXPECT_THAT(known_.pids(), ElementsAre(kJob, kChild));
}

TEST_F(KnownProcessesTest, ChildThatHasEndedHandsItsPlanOn) {
  const PlannedImage job = EnterJob();
  known_.EnterFork(kJob, kChild, /*is_over=*/true);
  const auto grandchild = known_.EnterFork(kChild, kGrandchild, /*is_over=*/false);
  ASSERT_TRUE(grandchild.has_value());
  EXPECT_EQ(grandchild->plan, job.plan);
}

TEST_F(KnownProcessesTest, ChildThatWasFoundBeforeItsForkWasReportedIsNotEnteredAgain) {
  EnterJob();
  ASSERT_TRUE(known_.EnterFork(kJob, kChild, /*is_over=*/false).has_value());
  EXPECT_FALSE(known_.EnterFork(kJob, kChild, /*is_over=*/false).has_value());
}

TEST_F(KnownProcessesTest, ChildOfProcessWithoutTorchIsAwaitedWhereItLives) {
  known_.Await(kJob);
  EXPECT_FALSE(known_.EnterFork(kJob, kChild, /*is_over=*/false).has_value());
  EXPECT_FALSE(known_.EnterFork(kJob, kGrandchild, /*is_over=*/true).has_value());
  EXPECT_TRUE(known_.IsKnown(kChild));
  EXPECT_FALSE(known_.IsKnown(kGrandchild));
  EXPECT_THAT(known_.pids(), IsEmpty());
}

TEST_F(KnownProcessesTest, ProcessIsAwaitedOnce) {
  EnterJob();
  EXPECT_FALSE(known_.AwaitNew(kJob));
  EXPECT_TRUE(known_.AwaitNew(kChild));
  EXPECT_FALSE(known_.AwaitNew(kChild));
}

TEST_F(KnownProcessesTest, AwaitedProcessWithTorchThatEndsHasEndedEarly) {
  known_.Await(kJob);
  known_.AwaitNew(kChild);
  known_.OnExit(kJob, 2000);
  EXPECT_EQ(gaps_.ended_early(), 0);
  known_.OnExit(kChild, 2000);
  EXPECT_EQ(gaps_.ended_early(), 1);
  EXPECT_FALSE(known_.has_awaited());
}

TEST_F(KnownProcessesTest, LookAtAnOldProgramEndsNoWait) {
  known_.AwaitNew(kJob);
  const auto old = known_.awaited().at(Raw(kJob)).loading;
  known_.Await(kJob);  // it runs another program
  known_.OnLook(kJob, old, /*is_done=*/true);
  EXPECT_TRUE(known_.has_awaited());
  known_.OnLook(kJob, known_.awaited().at(Raw(kJob)).loading, /*is_done=*/true);
  EXPECT_FALSE(known_.has_awaited());
}

TEST_F(KnownProcessesTest, RefusedProcessIsToldOfOnceWhileItLives) {
  const absl::Status why = Fail(ExitCode::kHostUnfit, "no room");
  known_.AwaitNew(kJob);
  known_.Refuse(kJob, why);
  known_.Refuse(kJob, why);
  EXPECT_EQ(gaps_.follow_failed(), 1);
  EXPECT_FALSE(known_.has_awaited());
  EXPECT_FALSE(known_.AwaitNew(kJob));
  // Another process may get the number.
  known_.OnExit(kJob, 2000);
  EXPECT_TRUE(known_.AwaitNew(kJob));
}

TEST_F(KnownProcessesTest, ProcessIsForgottenOnce) {
  EnterJob();
  const auto forgotten = known_.Forget(kJob);
  ASSERT_TRUE(forgotten.has_value());
  EXPECT_TRUE(forgotten->has_maps);
  EXPECT_FALSE(known_.Forget(kJob).has_value());
}

TEST_F(KnownProcessesTest, ChildWithoutProbesHasNoMaps) {
  EnterJob();
  known_.EnterFork(kJob, kChild, /*is_over=*/true);
  EXPECT_FALSE(known_.Forget(kChild)->has_maps);
}

TEST_F(KnownProcessesTest, RemovalIsUnderWayUntilAllThatWereAskedForHaveEnded) {
  EXPECT_FALSE(known_.AskRemoval(kJob, {}));
  EnterJob();
  EXPECT_TRUE(known_.AskRemoval(kJob, {}));
  EXPECT_TRUE(known_.AskRemoval(kJob, {}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(known_.IsRemoving(kJob));
    auto removal = known_.TakeRemoval(kJob);
    ASSERT_TRUE(removal.has_value());
    EXPECT_TRUE(known_.EndRemoval(kJob, std::move(removal->operators)));
  }
  EXPECT_FALSE(known_.IsRemoving(kJob));
}

}  // namespace
}  // namespace proftrace
