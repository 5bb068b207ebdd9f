// Waits for the lock of Python's interpreter: who held it, and what that thread did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

class GilRulesTest : public WhyTest {
 protected:
  GilRulesTest() { maker_.info().system.sched = true; }

  void AddWait(WaitReason reason, int64_t from_ns, int64_t to_ns, uint32_t waker_tid,
               uint32_t waker_pid = 7) {
    SystemEvent wait = MakeOffCpu(thread_, reason, from_ns, to_ns, 0, "futex");
    if (waker_tid != 0) {
      wait.off_cpu.waker_pid = Pid{waker_pid};
      wait.off_cpu.waker_tid = Tid{waker_tid};
    }
    maker_.AddSystemEvent(wait);
  }

  // 4 ms until a clock ends the wait, and 1 ms until `waker_tid` gives the lock up.
  void AddTries(uint32_t waker_tid, uint32_t waker_pid = 7, int64_t between_ns = 1000) {
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      AddWait(WaitReason::kGil, from_ns, from_ns + 4 * kMs, 0);
      AddWait(WaitReason::kGil, from_ns + 4 * kMs + between_ns, from_ns + 5 * kMs + between_ns,
              waker_tid, waker_pid);
    });
  }
};

TEST_F(GilRulesTest, TheHolderIsTheThreadThatGivesItUp) {
  AddTries(8);
  const Verdict verdict = Why();
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kGil);
  ASSERT_TRUE(finding.has_value());
  EXPECT_FALSE(FindKind(verdict, FindingKind::kLock).has_value());
  EXPECT_EQ(finding->ns, kSteps * 5 * kMs);
  EXPECT_EQ(finding->certainty, Certainty::kMeasured);
  EXPECT_THAT(finding->what, HasSubstr("the main thread waits for Python's interpreter lock"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("It waited 24 times for 60.0 ms, 4.00 ms at the"));
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("Thread holder (TID 8) held it for 100 % of that time. Meanwhile that "
                        "thread worked for 100 % of the time."));
  EXPECT_EQ(finding->next, "--sample 99Hz");
}

// The thread waits for the lock for 2 ms, and calls futex for 3 ms beside.
class HandOverTest : public GilRulesTest {
 protected:
  std::string EvidenceWith(WaitReason reason) {
    maker_.info().system.calls = true;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      AddWait(reason, from_ns, from_ns + 2 * kMs, 8);
      maker_.AddSystemEvent(MakeCall(thread_, "futex", from_ns + 2 * kMs, from_ns + 5 * kMs, 1));
    });
    const std::optional<Finding> finding = FindKind(Why(), FindingKind::kSystem);
    return finding.has_value() ? EvidenceOf(*finding) : "";
  }
};

TEST_F(HandOverTest, CallsThatGiveTheLockAwayBelongToTheWaitsForIt) {
  EXPECT_THAT(EvidenceWith(WaitReason::kGil), HasSubstr("this time belongs to the waits for that"));
}

TEST_F(HandOverTest, CallsForAnotherLockDoNot) {
  const std::string text = EvidenceWith(WaitReason::kLock);
  EXPECT_THAT(text, HasSubstr("It was in futex for 3.00 ms a step."));
  EXPECT_THAT(text, Not(HasSubstr("interpreter lock")));
}

TEST_F(GilRulesTest, WhatTheHolderRanIsTold) {
  const LabelId decode = maker_.AddAnnotation("decode_images");
  AddTries(8);
  maker_.Add(other_, decode, BeginOf(0), BeginOf(kSteps));
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kGil);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("it was in decode_images then, for 100 %"));
}

TEST_F(GilRulesTest, ATryOfItsOwnIsNotTheNextHolders) {
  // What the clock ended was long before: who held the lock then is not known.
  AddTries(8, 7, /*between_ns=*/kMs - 1);
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kGil);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("held it for 20 % of that time"));
}

TEST_F(GilRulesTest, AnInterruptedProcessIsNoHolder) {
  AddTries(9, /*waker_pid=*/99);
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kGil);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("Which thread held it is not known."));
  EXPECT_THAT(EvidenceOf(*finding), Not(HasSubstr("TID 9")));
}

TEST_F(GilRulesTest, OtherLocksAreNotTheInterpreters) {
  MakeSteps([&](int, int64_t from_ns, int64_t) {
    AddWait(WaitReason::kLock, from_ns, from_ns + 3 * kMs, 8);
    AddWait(WaitReason::kGil, from_ns + 3 * kMs, from_ns + 5 * kMs, 8);
  });
  const Verdict verdict = Why();
  const std::optional<Finding> gil = FindKind(verdict, FindingKind::kGil);
  const std::optional<Finding> lock = FindKind(verdict, FindingKind::kLock);
  ASSERT_TRUE(gil.has_value() && lock.has_value());
  EXPECT_EQ(gil->ns, kSteps * 2 * kMs);
  EXPECT_EQ(lock->ns, kSteps * 3 * kMs);
  EXPECT_THAT(EvidenceOf(*lock), HasSubstr("It waited 12 times for 36.0 ms"));
}

TEST_F(GilRulesTest, ATimeoutOfTheSwitchIntervalAloneIsNoGil) {
  MakeSteps([&](int, int64_t from_ns, int64_t) {
    AddWait(WaitReason::kEvent, from_ns, from_ns + 5 * kMs, 0);
  });
  const Verdict verdict = Why();
  EXPECT_FALSE(FindKind(verdict, FindingKind::kGil).has_value());
  EXPECT_TRUE(FindKind(verdict, FindingKind::kOtherThread).has_value());
}

TEST_F(GilRulesTest, AfterALossNothingIsSaid) {
  AddTries(8);
  maker_.ledger().system_lost = 1;
  EXPECT_FALSE(FindKind(Why(), FindingKind::kGil).has_value());
}

}  // namespace
}  // namespace proftrace
