// What the thread did that the driving thread waited for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

// The thread waits 5 ms a step for another one, which for the first 4 of them does what is said.
class WhyWakerTest : public WhyTest {
 protected:
  std::optional<Finding> FindWait(std::optional<WaitReason> meanwhile) {
    maker_.info().system.sched = true;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      SystemEvent wait = MakeOffCpu(thread_, WaitReason::kEvent, from_ns, from_ns + 5 * kMs);
      wait.off_cpu.waker_pid = waker_.pid;
      wait.off_cpu.waker_tid = waker_.tid;
      maker_.AddSystemEvent(wait);
      if (meanwhile.has_value()) {
        SystemEvent of_waker =
            MakeOffCpu(waker_.thread, *meanwhile, from_ns - kMs, from_ns + 4 * kMs, kMs / 2);
        of_waker.off_cpu.waker_pid = peer_;
        of_waker.off_cpu.waker_tid = peer_thread_;
        maker_.AddSystemEvent(of_waker);
      }
    });
    const Verdict verdict = Why();
    for (const Finding& finding : verdict.findings) {
      if (finding.kind == FindingKind::kOtherThread) return finding;
    }
    return std::nullopt;
  }

  struct Waker {
    ThreadIndex thread;
    Pid pid;
    Tid tid;
  };
  Waker waker_{other_, Pid{7}, Tid{8}};
  Pid peer_{};  // who ended the waker's waits
  Tid peer_thread_{};
};

// A thread that only passes on what another one makes, as that of multiprocessing.Queue does.
TEST_F(WhyWakerTest, WhomThatThreadWaitedForIsTold) {
  const ThreadIndex maker = maker_.AddThread(9, 9, "server");
  peer_ = Pid{9};
  peer_thread_ = Tid{9};
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = BeginOf(step) + 3 * kMs;
    maker_.Add(maker, multiply_, at_ns, at_ns + 4 * kMs);
  }
  const std::optional<Finding> finding = FindWait(WaitReason::kEvent);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("What it waited for came from the main thread of "
                                              "process server (PID 9), which worked for 100 %"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("Of its rows it was in aten::mm then"));
}

// A pool of processes, whose results another thread of the job receives.
TEST_F(WhyWakerTest, WhatTheProcessDidThatAThreadWaitedForIsTold) {
  peer_ = Pid{9};
  maker_.AddSystemEvent(MakeOffCpu(maker_.AddThread(9, 9, "child"), WaitReason::kSleep, 0, kMs));
  const std::optional<Finding> finding = FindWait(WaitReason::kIo);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("came from PID 9, a process of this recording, which "
                                              "worked for 100 % of that time."));
}

TEST_F(WhyWakerTest, AThreadThatWorksIsWaitedFor) {
  const std::optional<Finding> finding = FindWait(std::nullopt);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("for another thread to finish something"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("that thread worked for 100 % of the time."));
  EXPECT_EQ(finding->certainty, Certainty::kMeasured);
}

TEST_F(WhyWakerTest, WhatThatThreadWasInIsTold) {
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = BeginOf(step) + 3 * kMs;  // the wait begins here
    maker_.Add(other_, multiply_, at_ns, at_ns + 4 * kMs);
  }
  const std::optional<Finding> finding = FindWait(std::nullopt);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("Of its rows it was in aten::mm then, for 80 % of that time."));
}

// A thread of its own for each step, which works for 4 of the 5 ms.
TEST_F(WhyWakerTest, ThreadsThatAreStartedAnewAreAddedUp) {
  maker_.info().system.sched = true;
  MakeSteps([&](int step, int64_t from_ns, int64_t) {
    const auto tid = static_cast<uint32_t>(100 + step);
    const ThreadIndex helper = maker_.AddThread(7, tid, "replica");
    maker_.Add(helper, multiply_, from_ns, from_ns + 4 * kMs);
    maker_.AddSystemEvent(
        MakeOffCpu(helper, WaitReason::kSleep, from_ns + 4 * kMs, from_ns + 5 * kMs));
    SystemEvent wait = MakeOffCpu(thread_, WaitReason::kEvent, from_ns, from_ns + 5 * kMs);
    wait.off_cpu.waker_pid = Pid{7};
    wait.off_cpu.waker_tid = Tid{tid};
    maker_.AddSystemEvent(wait);
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kOtherThread);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("12 threads named replica ended these waits in turn, and "
                        "worked for 80 % of that time."));
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("Of its rows it was in aten::mm then, for 80 % of that time."));
}

TEST_F(WhyWakerTest, AnotherProcessIsNoThread) {
  waker_ = {maker_.AddThread(9, 9, "child"), Pid{9}, Tid{9}};
  const std::optional<Finding> finding = FindWait(std::nullopt);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("waits for another process to finish something"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("the main thread of process child (PID 9)"));
}

TEST_F(WhyWakerTest, AThreadThatSleepsIsWaitedFor) {
  const std::optional<Finding> finding = FindWait(WaitReason::kSleep);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("for another thread to finish something"));
  // 3.5 of 5 ms asleep, half of one without a CPU, one at work.
  EXPECT_THAT(
      EvidenceOf(*finding),
      HasSubstr("that thread worked for 20 % of the time, slept for 70 %, and had no CPU for "
                "10 %."));
}

TEST_F(WhyWakerTest, NoRequestsAreNoFaultOfTheJob) {
  const std::optional<Finding> finding = FindWait(WaitReason::kPoll);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("waits for work that another thread hands it"));
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("files or sockets to become ready for 70 %, and had no CPU for 10 %."));
  EXPECT_EQ(finding->certainty, Certainty::kLikely);
}

}  // namespace
}  // namespace proftrace
