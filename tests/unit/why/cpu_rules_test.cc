// Waits for a CPU: quotas of the job's control group, and what only looks so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

// In each step the thread waits for a CPU; a quota of half a CPU, of which the kernel counted what
// a test says.
class CpuRulesTest : public WhyTest {
 protected:
  struct Counted {
    uint64_t periods = 12;
    uint64_t throttled = 12;
    int64_t throttled_ns = 12 * 5 * kMs;
  };

  void AddQuota(const Counted& counted, const std::string& group = "/pod") {
    RecordingInfo& info = maker_.info();
    info.cpu_groups[7] = {group, "/"};
    const CpuQuota before{group, 5 * kMs, 10 * kMs, 100, 40, 7 * kMs};
    CpuQuota after = before;
    after.periods += counted.periods;
    after.throttled_periods += counted.throttled;
    after.throttled_ns += counted.throttled_ns;
    info.cpu_quotas = {{0, {before}}, {info.window.duration_ns, {after}}};
  }

  // 5 ms a step, in `waits` pieces.
  Verdict WhyOfWaits(int waits) {
    maker_.info().system.sched = true;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      const int64_t each_ns = 5 * kMs / waits;
      for (int i = 0; i < waits; ++i) {
        const int64_t at_ns = from_ns + i * each_ns;
        maker_.AddSystemEvent(
            MakeOffCpu(thread_, WaitReason::kPreempted, at_ns, at_ns + each_ns, each_ns));
      }
    });
    return Why();
  }
};

TEST_F(CpuRulesTest, AQuotaThatIsUsedUpIsNamed) {
  AddQuota({});
  const Verdict verdict = WhyOfWaits(1);
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kThrottling);
  ASSERT_TRUE(finding.has_value());
  EXPECT_FALSE(FindKind(verdict, FindingKind::kRunQueue).has_value());
  EXPECT_EQ(finding->ns, kSteps * 5 * kMs);
  EXPECT_EQ(finding->certainty, Certainty::kMeasured);
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("The quota of control group /pod, 0.5 CPUs, was used up in 12 of 12 "
                        "periods of 10 ms; threads were kept waiting for 60.0 ms"));
  EXPECT_THAT(verdict.remarks, testing::Not(testing::Contains(HasSubstr("quota"))));
}

// A loop that waits for another thread and gives its CPU away meanwhile.
TEST_F(CpuRulesTest, ACpuThatIsGivenAwayIsNotTakenByOthers) {
  maker_.info().system.sched = true;
  maker_.info().system.calls = true;
  MakeSteps([&](int, int64_t from_ns, int64_t) {
    const uint32_t call =
        maker_.AddSystemEvent(MakeCall(thread_, "sched_yield", from_ns, from_ns + 5 * kMs, 0, {}));
    SystemEvent wait =
        MakeOffCpu(thread_, WaitReason::kPreempted, from_ns, from_ns + 5 * kMs, 5 * kMs);
    wait.around = call;
    maker_.AddSystemEvent(wait);
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("gives its CPU away (sched_yield)"));
  EXPECT_THAT(EvidenceOf(*finding), Not(HasSubstr("other programs")));
}

TEST_F(CpuRulesTest, ABusyMachineWithoutAQuotaIsNoThrottling) {
  maker_.info().cpu_groups[7] = {"/"};
  maker_.info().cpu_quotas = {{0, {}}, {maker_.info().window.duration_ns, {}}};
  const Verdict verdict = WhyOfWaits(1);
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("No control group of the job has a quota"));
  EXPECT_THAT(EvidenceOf(*finding), Not(HasSubstr("mask or quota")));
}

TEST_F(CpuRulesTest, AQuotaThatIsNotUsedUpIsNotAccused) {
  AddQuota({.throttled = 0, .throttled_ns = 0});
  const std::optional<Finding> finding = FindKind(WhyOfWaits(1), FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("used up in 0 of 12 periods of 10 ms: that is not"));
}

TEST_F(CpuRulesTest, AQuotaThatExplainsLittleOfTheWaitsIsNotAccused) {
  AddQuota({.throttled = 3, .throttled_ns = 3 * 5 * kMs});
  const Verdict verdict = WhyOfWaits(1);
  EXPECT_FALSE(FindKind(verdict, FindingKind::kThrottling).has_value());
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("used up in 3 of 12 periods"));
  // It is told once.
  EXPECT_THAT(verdict.remarks, Not(testing::Contains(HasSubstr("quota"))));
}

TEST_F(CpuRulesTest, ManyShortWaitsAreThoseOfABusyMachine) {
  AddQuota({});
  EXPECT_FALSE(FindKind(WhyOfWaits(5), FindingKind::kThrottling).has_value());
}

TEST_F(CpuRulesTest, HowManyCpusAreWantedIsTold) {
  maker_.info().system.sched = true;
  for (uint32_t i = 0; i < 7; ++i) {  // threads of an operator that take turns on one CPU
    const ThreadIndex worker = maker_.AddThread(7, 20 + i, "python");
    for (int step = 0; step < kSteps; ++step) {
      const int64_t at_ns = BeginOf(step) + i * kMs;
      maker_.AddSystemEvent(
          MakeOffCpu(worker, WaitReason::kPreempted, at_ns, at_ns + 9 * kMs, 9 * kMs));
    }
  }
  const std::optional<Finding> finding = FindKind(WhyOfWaits(1), FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("they wanted 7."));
}

TEST_F(CpuRulesTest, WhatIsNotKnownOfQuotasIsSaidAsBefore) {
  const std::optional<Finding> finding = FindKind(WhyOfWaits(1), FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("a CPU mask or quota of the job"));
}

TEST_F(CpuRulesTest, ManyThreadsOfItsOwnAreNoOtherPrograms) {
  maker_.info().host.cpus = 2;
  maker_.info().system.sched = true;
  for (uint32_t i = 0; i < 7; ++i) {
    const ThreadIndex worker = maker_.AddThread(7, 20 + i, "python");
    for (int step = 0; step < kSteps; ++step) {
      const int64_t at_ns = BeginOf(step) + i * kMs / 2;
      maker_.AddSystemEvent(
          MakeOffCpu(worker, WaitReason::kPreempted, at_ns, at_ns + 95 * kMs / 10, 95 * kMs / 10));
    }
  }
  const std::optional<Finding> finding = FindKind(WhyOfWaits(1), FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("set_num_threads"));
  EXPECT_THAT(EvidenceOf(*finding), Not(HasSubstr("ther programs")));
}

TEST_F(CpuRulesTest, AMaskIsTheCpusThatCount) {
  maker_.info().host.cpus = 8;
  maker_.info().cpu_masks = {{7, {1, "3"}}, {9, {8, "0-7"}}};
  const ThreadIndex rival = maker_.AddThread(7, 21, "rival");
  const ThreadIndex elsewhere = maker_.AddThread(9, 9, "elsewhere");
  for (const ThreadIndex thread : {rival, elsewhere}) {
    for (int step = 0; step < kSteps; ++step) {
      maker_.AddSystemEvent(
          MakeOffCpu(thread, WaitReason::kPreempted, BeginOf(step), BeginOf(step) + kMs, kMs));
    }
  }
  const std::optional<Finding> finding = FindKind(WhyOfWaits(1), FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("of the 1 CPU that the job may use (CPU 3 of the "
                                              "host's 8, by taskset or a cpuset); 2 threads"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("want more CPUs than they may use"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("Thread rival (TID 21) worked most beside it"));
}

TEST_F(CpuRulesTest, OtherProgramsOnTheCpusOfAMaskAreTold) {
  maker_.info().host.cpus = 8;
  maker_.info().cpu_masks = {{7, {4, "0-1,6-7"}}};
  const std::optional<Finding> finding = FindKind(WhyOfWaits(1), FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("Other programs have the rest of these CPUs"));
}

TEST_F(CpuRulesTest, AMaskOfAllCpusIsNone) {
  maker_.info().host.cpus = 8;
  maker_.info().cpu_masks = {{7, {8, "0-7"}}};
  maker_.info().cpu_groups[7] = {"/"};
  maker_.info().cpu_quotas = {{0, {}}, {maker_.info().window.duration_ns, {}}};
  const std::optional<Finding> finding = FindKind(WhyOfWaits(1), FindingKind::kRunQueue);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("of the host's 8 CPUs"));
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("other programs (proftrace is one) keep it from them"));
}

// The thread sleeps again and again, and runs 50 us after each of these sleeps.
class WakeUpTest : public CpuRulesTest {
 protected:
  std::optional<Finding> FindingOfShortDelays(WaitReason reason) {
    maker_.info().system.sched = true;
    maker_.info().host.cpus = 8;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      for (int i = 0; i < 20; ++i) {
        const int64_t at_ns = from_ns + i * kMs / 5;
        maker_.AddSystemEvent(MakeOffCpu(thread_, reason, at_ns, at_ns + kMs / 10, kMs / 20));
      }
    });
    return FindKind(Why(), FindingKind::kRunQueue);
  }
};

TEST_F(WakeUpTest, WhatWakingUpTakesIsNoOtherProgram) {
  const std::optional<Finding> finding = FindingOfShortDelays(WaitReason::kSleep);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("was woken up, and did not run yet"));
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("It was woken up 20.0 times a step, and ran 50 us later (mean)"));
  EXPECT_THAT(EvidenceOf(*finding), Not(HasSubstr("keep it from them")));
}

TEST_F(WakeUpTest, AThreadThatWasPreemptedWasNotWokenUp) {
  const std::optional<Finding> finding = FindingOfShortDelays(WaitReason::kPreempted);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), Not(HasSubstr("woken up")));
}

// A process that has a CPU for itself, and is kept from it only once, late. It is known whether it
// was there before the window.
class SpinnerTest : public CpuRulesTest {
 protected:
  std::string EvidenceWith(uint64_t start_ticks) {
    const int64_t tick_ns = 10 * kMs;
    maker_.info().window.start_ns = 2 * tick_ns;
    Target spinner{.pid = Pid{9}};
    spinner.start_ticks = start_ticks;
    maker_.info().targets.push_back(spinner);
    maker_.AddSystemEvent(MakeOffCpu(maker_.AddThread(9, 9, "spinner"), WaitReason::kPreempted,
                                     BeginOf(11), BeginOf(11) + kMs, kMs));
    const std::optional<Finding> finding = FindKind(WhyOfWaits(1), FindingKind::kRunQueue);
    return finding.has_value() ? EvidenceOf(*finding) : "";
  }
};

TEST_F(SpinnerTest, AThreadThatRanBeforeItsFirstWaitIsCounted) {
  EXPECT_THAT(EvidenceWith(1), HasSubstr("2 threads of theirs"));
}

TEST_F(SpinnerTest, AThreadWithAMaskUsesTheCpusOfAllToo) {
  maker_.info().cpu_masks = {{9, {1, "0"}}};
  EXPECT_THAT(EvidenceWith(1), HasSubstr("2 threads of theirs"));
}

TEST_F(SpinnerTest, OneThatCameLaterIsNot) {
  EXPECT_THAT(EvidenceWith(9), HasSubstr("1 thread of theirs"));
}

TEST_F(CpuRulesTest, NamesOfGroupsCannotCommandTheTerminal) {
  AddQuota({}, "/pod\x1b[2J");
  const std::optional<Finding> finding = FindKind(WhyOfWaits(1), FindingKind::kThrottling);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace proftrace
