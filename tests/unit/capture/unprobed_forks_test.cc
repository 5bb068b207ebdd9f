#include "userspace/capture/processes/unprobed_forks.h"

#include <gtest/gtest.h>

namespace proftrace {
namespace {

constexpr Pid kJob{100};
constexpr Pid kChild{101};
constexpr Pid kGrandchild{102};

class UnprobedForksTest : public ::testing::Test {
 protected:
  UnprobedForksTest() { forks_.BeginWindow(1000); }

  void Fork(Pid parent, Pid child, int64_t time_ns) {
    forks_.OnFork(parent, child, time_ns, parent == kJob);
  }

  UnprobedForks forks_;
};

TEST_F(UnprobedForksTest, CountsOneThatEndsBeforeItsProbesAreLive) {
  Fork(kJob, kChild, 2000);
  EXPECT_EQ(forks_.waiting(), 1);
  forks_.OnExit(kChild, 2500);
  EXPECT_EQ(forks_.ended(), 1);
  EXPECT_EQ(forks_.waiting(), 0);
  // Probes that come later are none that it had.
  forks_.OnLive(kChild, 2600);
  EXPECT_EQ(forks_.ended(), 1);
}

TEST_F(UnprobedForksTest, DoesNotCountOneWithProbes) {
  Fork(kJob, kChild, 2000);
  forks_.OnLive(kChild, 2400);
  EXPECT_EQ(forks_.waiting(), 0);
  forks_.OnExit(kChild, 2500);
  EXPECT_EQ(forks_.ended(), 0);
}

TEST_F(UnprobedForksTest, CountsOneWhoseEndIsToldOfWhenItsProbesWereTooLate) {
  Fork(kJob, kChild, 2000);
  forks_.OnLive(kChild, 2600);
  forks_.OnExit(kChild, 2500);
  EXPECT_EQ(forks_.ended(), 1);
}

TEST_F(UnprobedForksTest, DoesNotCountWhatRunsAnotherProgram) {
  Fork(kJob, kChild, 2000);
  forks_.OnExec(kChild);
  // A shell's own children, until its exec has been followed, and after.
  forks_.OnFork(kChild, kGrandchild, 2200, /*is_recorded=*/true);
  forks_.OnExit(kGrandchild, 2300);
  forks_.OnExecFollowed(kChild);
  forks_.OnFork(kChild, kGrandchild, 2400, /*is_recorded=*/false);
  forks_.OnExit(kGrandchild, 2450);
  forks_.OnExit(kChild, 2500);
  EXPECT_EQ(forks_.ended(), 0);
  // It may have PyTorch.
  forks_.OnFork(kChild, kGrandchild, 2600, /*is_recorded=*/true);
  forks_.OnExit(kGrandchild, 2700);
  EXPECT_EQ(forks_.ended(), 1);
}

TEST_F(UnprobedForksTest, DoesNotCountChildrenOfOthers) {
  forks_.OnFork(Pid{7}, Pid{8}, 2000, /*is_recorded=*/false);
  forks_.OnExit(Pid{8}, 2100);
  forks_.OnExit(Pid{9}, 2100);
  EXPECT_EQ(forks_.ended(), 0);
}

TEST_F(UnprobedForksTest, CountsChildrenOfChildrenThatAreNotRecordedYet) {
  Fork(kJob, kChild, 2000);
  Fork(kChild, kGrandchild, 2100);
  forks_.OnExit(kChild, 2200);
  forks_.OnExit(kGrandchild, 2300);
  EXPECT_EQ(forks_.ended(), 2);
}

TEST_F(UnprobedForksTest, DoesNotCountOneThatIsNamedElsewhere) {
  Fork(kJob, kChild, 2000);
  forks_.OnRefused(kChild);
  forks_.OnExit(kChild, 2500);
  EXPECT_EQ(forks_.ended(), 0);
}

TEST_F(UnprobedForksTest, DoesNotCountWhatEndedBeforeTheWindow) {
  UnprobedForks forks;
  forks.OnFork(kJob, kChild, 500, /*is_recorded=*/true);
  forks.OnFork(kJob, kGrandchild, 600, /*is_recorded=*/true);
  forks.OnExit(kChild, 700);
  forks.BeginWindow(1000);
  EXPECT_EQ(forks.ended(), 0);
  forks.OnExit(kGrandchild, 1100);
  EXPECT_EQ(forks.ended(), 1);
}

TEST_F(UnprobedForksTest, TellsOfThoseThatHadNoProbesWhenTheWindowEnded) {
  Fork(kJob, kChild, 2000);
  forks_.EndWindow(3000);
  Fork(kJob, kGrandchild, 3100);
  forks_.OnExit(kChild, 3200);
  forks_.OnExit(kGrandchild, 3300);
  EXPECT_EQ(forks_.ended(), 0);
  EXPECT_EQ(forks_.waiting(), 1);
}

}  // namespace
}  // namespace proftrace
