// Why steps take so long: the parts of their time, and the rules over hand-made timelines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "exporters/sinks/output_file.h"
#include "exporters/text/why_text.h"
#include "tests/support/system_events.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/why/step_parts.h"
#include "userspace/why/verdict.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStepNs = 10 * kMs;
constexpr int kSteps = 12;

// Steps of 10 ms that the job annotates itself; each has an operator of 2 ms in its middle.
class WhyTest : public testing::Test {
 protected:
  WhyTest() {
    maker_.info().targets.push_back({.pid = Pid{7}});
    maker_.info().window = {.start_ns = 0, .duration_ns = (kSteps + 1) * kStepNs};
    maker_.info().host.cpus = 4;
  }

  static int64_t BeginOf(int step) { return (step + 1) * kStepNs; }

  // `middle(step, from_ns, to_ns)`: what is in the 6 ms after the operator.
  template <typename Middle>
  void MakeSteps(Middle&& middle, int64_t gap_ns = 0) {
    for (int step = 0; step < kSteps; ++step) {
      const int64_t at_ns = BeginOf(step) + step * gap_ns;
      maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), at_ns);
      maker_.Add(thread_, multiply_, at_ns + kMs, at_ns + 3 * kMs);
      middle(step, at_ns + 3 * kMs, at_ns + 9 * kMs);
      maker_.End(thread_, at_ns + kStepNs);
    }
  }

  StepParts Parts() {
    timeline_ = maker_.Finish();
    aggregates_ = Aggregate(*timeline_, {});
    const std::optional<StepParts> parts = SplitSteps(*timeline_, aggregates_.steps);
    return parts.value_or(StepParts());
  }

  Verdict Why() {
    timeline_ = maker_.Finish();
    aggregates_ = Aggregate(*timeline_, {});
    return FindVerdict(*timeline_, aggregates_);
  }

  static std::string EvidenceOf(const Finding& finding) {
    std::string all;
    for (const std::string& sentence : finding.evidence) all += sentence + " ";
    return all;
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(7, 7, "main");
  ThreadIndex other_ = maker_.AddThread(7, 8, "holder");
  LabelId multiply_ = maker_.AddOperator("aten::mm");
  std::unique_ptr<Timeline> timeline_;
  Aggregates aggregates_;
};

TEST_F(WhyTest, PartsAddUpToTheSteps) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.AddSystemEvent(
        MakeOffCpu(thread_, WaitReason::kLock, from_ns, from_ns + 2 * kMs, kMs / 2, "futex"));
    maker_.AddSystemEvent(MakeFault(thread_, false, to_ns - kMs, to_ns));
  });
  maker_.info().system.sched = true;
  maker_.info().system.faults = true;
  const StepParts parts = Parts();
  ASSERT_EQ(parts.intervals.size(), static_cast<size_t>(kSteps));
  EXPECT_TRUE(parts.has_kernel);
  EXPECT_EQ(parts.total_ns, kSteps * kStepNs);
  EXPECT_EQ(parts.of(StepPart::kOperators), kSteps * 2 * kMs);
  EXPECT_EQ(parts.of(StepPart::kLock), kSteps * 3 * kMs / 2);
  EXPECT_EQ(parts.of(StepPart::kRunQueue), kSteps * kMs / 2);
  EXPECT_EQ(parts.of(StepPart::kFaults), kSteps * kMs);
  EXPECT_EQ(parts.of(StepPart::kPython), kSteps * 5 * kMs);
  EXPECT_EQ(parts.of(StepPart::kBetween), 0);
  int64_t moments_ns = 0;
  for (const PartMoment& moment : parts.moments) moments_ns += moment.end_ns - moment.start_ns;
  EXPECT_EQ(moments_ns, parts.total_ns);
  EXPECT_TRUE(parts.IsIn(StepPart::kLock, BeginOf(3) + 3 * kMs));
  EXPECT_FALSE(parts.IsIn(StepPart::kLock, BeginOf(3) + 5 * kMs));
  EXPECT_EQ(parts.At(BeginOf(0) - 1), nullptr);
  EXPECT_EQ(parts.At(BeginOf(kSteps)), nullptr);
}

TEST_F(WhyTest, ALockHasItsHolderNamed) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    SystemEvent wait = MakeOffCpu(thread_, WaitReason::kLock, from_ns, to_ns, 0, "futex");
    wait.off_cpu.waker_pid = Pid{7};
    wait.off_cpu.waker_tid = Tid{8};
    maker_.AddSystemEvent(wait);
  });
  maker_.info().system.sched = true;
  const Verdict verdict = Why();
  ASSERT_GE(verdict.findings.size(), 2u);
  EXPECT_EQ(verdict.findings[0].kind, FindingKind::kLock);
  EXPECT_EQ(verdict.findings[0].ns, kSteps * 6 * kMs);
  EXPECT_DOUBLE_EQ(verdict.MsAStep(verdict.findings[0]), 6);
  EXPECT_DOUBLE_EQ(verdict.ShareOf(verdict.findings[0]), 0.6);
  EXPECT_THAT(EvidenceOf(verdict.findings[0]), HasSubstr("thread holder (TID 8)"));
  EXPECT_EQ(verdict.findings[1].kind, FindingKind::kOperators);
}

// The thread waits 5 ms a step for another one, which for the first 4 of them does what is said.
class WhyWakerTest : public WhyTest {
 protected:
  std::optional<Finding> FindWait(std::optional<WaitReason> meanwhile) {
    maker_.info().system.sched = true;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      SystemEvent wait = MakeOffCpu(thread_, WaitReason::kEvent, from_ns, from_ns + 5 * kMs);
      wait.off_cpu.waker_pid = Pid{7};
      wait.off_cpu.waker_tid = Tid{8};
      maker_.AddSystemEvent(wait);
      if (meanwhile.has_value()) {
        maker_.AddSystemEvent(
            MakeOffCpu(other_, *meanwhile, from_ns - kMs, from_ns + 4 * kMs, kMs / 2));
      }
    });
    const Verdict verdict = Why();
    for (const Finding& finding : verdict.findings) {
      if (finding.kind == FindingKind::kOtherThread) return finding;
    }
    return std::nullopt;
  }
};

TEST_F(WhyWakerTest, AThreadThatWorksIsWaitedFor) {
  const std::optional<Finding> finding = FindWait(std::nullopt);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("for another thread to finish something"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("that thread worked for 100 % of the time."));
  EXPECT_EQ(finding->certainty, Certainty::kMeasured);
}

TEST_F(WhyWakerTest, AThreadThatSleepsIsWaitedFor) {
  const std::optional<Finding> finding = FindWait(WaitReason::kSleep);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("for another thread to finish something"));
  // 3.5 of 5 ms asleep, half of one without a CPU, one at work.
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("that thread worked for 20 % of the time, and slept for 70 %."));
}

TEST_F(WhyWakerTest, NoRequestsAreNoFaultOfTheJob) {
  const std::optional<Finding> finding = FindWait(WaitReason::kPoll);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("waits for work that another thread hands it"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("files or sockets to become ready for 70 %."));
  EXPECT_EQ(finding->certainty, Certainty::kLikely);
}

TEST_F(WhyTest, WaitsOfOtherThreadsAreNotTheSteps) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.AddSystemEvent(MakeOffCpu(other_, WaitReason::kLock, from_ns, to_ns, 0, "futex"));
  });
  maker_.info().system.sched = true;
  for (const Finding& finding : Why().findings) EXPECT_NE(finding.kind, FindingKind::kLock);
}

TEST_F(WhyTest, WithoutTheSchedulerItIsNotKnownWhetherPythonRan) {
  MakeSteps([](int, int64_t, int64_t) {});
  const Verdict verdict = Why();
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings[0].kind, FindingKind::kPython);
  EXPECT_EQ(verdict.findings[0].certainty, Certainty::kLikely);
  EXPECT_THAT(verdict.findings[0].what, HasSubstr("or waits"));
  EXPECT_EQ(verdict.findings[0].next, "--activities cpu,sched,syscalls");
}

TEST_F(WhyTest, ALossOfTheKernelsEventsIsSaid) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kLock, from_ns, to_ns, 0, "futex"));
  });
  maker_.info().system.sched = true;
  maker_.ledger().system_lost = 1;
  const Verdict verdict = Why();
  EXPECT_EQ(verdict.findings[0].kind, FindingKind::kPython);
  EXPECT_THAT(verdict.remarks, testing::Contains(HasSubstr("lost")));
}

TEST_F(WhyTest, OneOperatorDominates) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    const SpanId span = maker_.Add(thread_, multiply_, from_ns, to_ns);
    ASSERT_TRUE(maker_.SetShapes(span, "[[512, 512], [512, 512]]").ok());
  });
  const Verdict verdict = Why();
  EXPECT_EQ(verdict.findings[0].kind, FindingKind::kOneOperator);
  EXPECT_THAT(verdict.findings[0].what, HasSubstr("aten::mm"));
  EXPECT_THAT(EvidenceOf(verdict.findings[0]), HasSubstr("aten::mm (8.00 ms a step, 2.0 calls)"));
  EXPECT_THAT(EvidenceOf(verdict.findings[0]), HasSubstr("75 % of it with inputs of [[512, 512]"));
}

TEST_F(WhyTest, ManySmallOperators) {
  const LabelId add = maker_.AddOperator("aten::add");
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    for (int64_t at_ns = from_ns; at_ns + 8000 <= to_ns; at_ns += 10000) {
      maker_.Add(thread_, add, at_ns, at_ns + 4000);
    }
  });
  const Verdict verdict = Why();
  const auto found = std::find_if(
      verdict.findings.begin(), verdict.findings.end(),
      [](const Finding& finding) { return finding.kind == FindingKind::kSmallOperators; });
  ASSERT_NE(found, verdict.findings.end());
  EXPECT_THAT(EvidenceOf(*found), HasSubstr("operators a step take 7 us each"));
}

TEST_F(WhyTest, EveryThirdStepIsSlow) {
  const LabelId save = maker_.AddAnnotation("save");
  int64_t at_ns = kStepNs;
  for (int step = 0; step < kSteps; ++step) {
    const int64_t length_ns = step % 3 == 2 ? 3 * kStepNs : kStepNs;
    maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), at_ns);
    maker_.Add(thread_, multiply_, at_ns + kMs, at_ns + 9 * kMs);
    if (step % 3 == 2) maker_.Add(thread_, save, at_ns + 9 * kMs, at_ns + 29 * kMs);
    maker_.End(thread_, at_ns + length_ns);
    at_ns += length_ns;
  }
  maker_.info().window.duration_ns = at_ns + kStepNs;
  const Verdict verdict = Why();
  const Finding& uneven = verdict.findings.back();
  ASSERT_EQ(uneven.kind, FindingKind::kUnevenSteps);
  EXPECT_EQ(uneven.ns, 4 * 2 * kStepNs);
  EXPECT_THAT(uneven.what, HasSubstr("every 3rd step"));
  EXPECT_THAT(EvidenceOf(uneven), HasSubstr("save grows most: 20.0 ms"));
}

TEST_F(WhyTest, TimeBetweenStepsIsNoStepsTime) {
  MakeSteps([](int, int64_t, int64_t) {}, /*gap_ns=*/5 * kMs);
  maker_.info().window.duration_ns += kSteps * 5 * kMs;
  const Verdict verdict = Why();
  EXPECT_EQ(verdict.total_ns, kSteps * kStepNs + (kSteps - 1) * 5 * kMs);
  const auto between = std::find_if(
      verdict.findings.begin(), verdict.findings.end(),
      [](const Finding& finding) { return finding.kind == FindingKind::kBetweenSteps; });
  ASSERT_NE(between, verdict.findings.end());
  EXPECT_EQ(between->ns, (kSteps - 1) * 5 * kMs);
}

TEST_F(WhyTest, WithoutOperatorsNothingIsSaidOfThem) {
  maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kSleep, 10 * kMs, 60 * kMs));
  maker_.info().system.operators = false;
  maker_.info().system.sched = true;
  const std::string text = FormatVerdict(Why());
  EXPECT_THAT(text, HasSubstr("the main thread sleeps"));
  EXPECT_THAT(text, HasSubstr("80.0 ms (62 %): the main thread computes."));
  EXPECT_THAT(text, Not(HasSubstr("operator")));
  EXPECT_THAT(text, Not(HasSubstr("--with-stack")));
}

TEST_F(WhyTest, NothingIsSaidOfNothing) {
  maker_.info().window.duration_ns = 0;
  const Verdict verdict = Why();
  EXPECT_TRUE(verdict.findings.empty());
  EXPECT_FALSE(verdict.remarks.empty());
  EXPECT_THAT(FormatVerdict(verdict), HasSubstr("no time to give reasons for"));
}

TEST_F(WhyTest, NamesCannotCommandTheTerminal) {
  const LabelId hostile = maker_.AddOperator("evil\x1b[2J\nSteps take 0 ms");
  MakeSteps(
      [&](int, int64_t from_ns, int64_t to_ns) { maker_.Add(thread_, hostile, from_ns, to_ns); });
  const std::string text = FormatVerdict(Why());
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\nSteps take 0 ms")));
}

TEST_F(WhyTest, LinesAreNotLongerThanAHundredCharacters) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kLock, from_ns, to_ns, 0, "futex"));
  });
  maker_.info().system.sched = true;
  const std::string text = FormatVerdict(Why());
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
  }
}

}  // namespace
}  // namespace proftrace
