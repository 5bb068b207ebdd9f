// Why steps take so long: the parts of their time, and the rules over hand-made timelines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "exporters/sinks/output_file.h"
#include "exporters/text/why_text.h"
#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST_F(WhyTest, ACauseOfTheFirstStepAloneIsToldAsOne) {
  MakeSteps([&](int step, int64_t from_ns, int64_t to_ns) {
    const int64_t end_ns = step == 0 ? to_ns : from_ns + kMs / 10;
    maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kSleep, from_ns, end_ns, 0));
  });
  maker_.info().system.sched = true;
  const std::optional<Finding> sleep = FindKind(Why(), FindingKind::kSleep);
  ASSERT_TRUE(sleep.has_value());
  EXPECT_THAT(EvidenceOf(*sleep),
              HasSubstr("85 % of that time is in the first step alone, as where a job still "
                        "starts: the others have 100 us of it each."));
}

TEST_F(WhyTest, ACauseOfAllStepsIsNotToldAsOneOfAStep) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kSleep, from_ns, to_ns, 0));
  });
  maker_.info().system.sched = true;
  const std::optional<Finding> sleep = FindKind(Why(), FindingKind::kSleep);
  ASSERT_TRUE(sleep.has_value());
  EXPECT_THAT(EvidenceOf(*sleep), Not(HasSubstr("step alone")));
}

TEST_F(WhyTest, WaitsOfOtherThreadsAreNotTheSteps) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.AddSystemEvent(MakeOffCpu(other_, WaitReason::kLock, from_ns, to_ns, 0, "futex"));
  });
  maker_.info().system.sched = true;
  for (const Finding& finding : Why().findings) EXPECT_NE(finding.kind, FindingKind::kLock);
}

// Faults of fresh memory for 4 ms a step, and calls of munmap by a thread before.
class WhyFaultTest : public WhyTest {
 protected:
  Finding FaultsOf(std::optional<ThreadIndex> gives_back, bool knows_calls = true) {
    maker_.info().system.sched = true;
    maker_.info().system.faults = true;
    maker_.info().system.calls = knows_calls;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      if (gives_back.has_value()) {
        maker_.AddSystemEvent(MakeCall(*gives_back, "munmap", from_ns, from_ns + kMs / 10, 0,
                                       {uint64_t{1} << 40, 48'000'000}));
      }
      SystemEvent fault = MakeFault(thread_, false, from_ns + kMs, from_ns + 5 * kMs);
      fault.fault.area = FaultArea::kAnonymous;
      maker_.AddSystemEvent(fault);
    });
    const Verdict verdict = Why();
    return verdict.findings.empty() ? Finding() : verdict.findings.front();
  }
};

TEST_F(WhyFaultTest, AnAllocatorThatGivesMemoryBackIsNamed) {
  const Finding finding = FaultsOf(thread_);
  EXPECT_EQ(finding.kind, FindingKind::kAllocator);
  EXPECT_EQ(finding.certainty, Certainty::kMeasured);
  EXPECT_EQ(finding.ns, kSteps * 4 * kMs);
  EXPECT_THAT(EvidenceOf(finding), HasSubstr("munmap 1.0 times a step, mostly for 48.0 MB"));
}

// One step of six gives back what the others take: glibc gives the heap back above a limit.
TEST_F(WhyFaultTest, BytesCountThatAreGivenBackAndNotCalls) {
  const auto finding_of = [this](uint64_t bytes) {
    maker_.info().system.sched = true;
    maker_.info().system.faults = true;
    maker_.info().system.calls = true;
    MakeSteps([&](int step, int64_t from_ns, int64_t) {
      if (step % 6 == 0) {
        maker_.AddSystemEvent(MakeCall(thread_, "munmap", from_ns, from_ns + kMs / 10, 0,
                                       {uint64_t{1} << 40, bytes}));
      }
      for (int i = 0; i < 100; ++i) {
        const int64_t at_ns = from_ns + kMs + i * kMs / 25;
        maker_.AddSystemEvent(MakeFault(thread_, false, at_ns, at_ns + kMs / 25));
      }
    });
    return Why().findings.front();
  };
  const Finding finding = finding_of(6 * 4096 * 60);
  EXPECT_EQ(finding.kind, FindingKind::kAllocator);
  EXPECT_THAT(EvidenceOf(finding), HasSubstr("It called munmap 2 times in 12 steps"));
}

TEST_F(WhyFaultTest, MemoryThatGrowsIsNoChurn) {
  const Finding finding = FaultsOf(std::nullopt);
  EXPECT_EQ(finding.kind, FindingKind::kFaults);
  EXPECT_THAT(EvidenceOf(finding), HasSubstr("used for the first time"));
}

TEST_F(WhyFaultTest, WhatOtherThreadsGiveBackIsNotTheSteps) {
  EXPECT_EQ(FaultsOf(other_).kind, FindingKind::kFaults);
}

TEST_F(WhyFaultTest, WithoutSystemCallsItIsAGuess) {
  const Finding finding = FaultsOf(std::nullopt, false);
  EXPECT_EQ(finding.kind, FindingKind::kFaults);
  EXPECT_EQ(finding.certainty, Certainty::kLikely);
  EXPECT_EQ(finding.next, "--activities cpu,sched,syscalls,faults");
}

TEST_F(WhyTest, WithoutTheSchedulerItIsNotKnownWhetherPythonRan) {
  MakeSteps([](int, int64_t, int64_t) {});
  const Verdict verdict = Why();
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings[0].kind, FindingKind::kPython);
  EXPECT_EQ(verdict.findings[0].certainty, Certainty::kLikely);
  EXPECT_THAT(verdict.findings[0].what, HasSubstr("or waits"));
  EXPECT_EQ(verdict.findings[0].next, "--activities cpu,sched,syscalls --sample 99Hz");
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
  EXPECT_THAT(EvidenceOf(*found), HasSubstr("operators a step take 4.0 us each, "));
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

// Rows of TorchDynamo from `from_ns` on: a look for code that fits, and the code's own row later.
class WhyCompileTest : public WhyTest {
 protected:
  // `calls`: it calls an operator meanwhile.
  void AddCompiled(int version, int64_t from_ns, int64_t after_ns, bool calls = false) {
    maker_.Add(thread_, lookup_, from_ns, from_ns + kMs / 10);
    if (calls) maker_.Add(thread_, multiply_, from_ns + kMs, from_ns + 2 * kMs);
    const int64_t start_ns = from_ns + kMs / 10 + after_ns;
    maker_.Add(thread_, maker_.AddAnnotation("Torch-Compiled Region: 0/" + std::to_string(version)),
               start_ns, start_ns + kMs);
  }

  bool IsCompilationNamed() {
    for (const Finding& finding : Why().findings) {
      if (finding.kind == FindingKind::kRecompilation) return true;
    }
    return false;
  }

  LabelId lookup_ = maker_.AddAnnotation("TorchDynamo Cache Lookup");
};

TEST_F(WhyCompileTest, CompilingInTheLoopIsNamedFirst) {
  MakeSteps([&](int step, int64_t from_ns, int64_t) {
    AddCompiled(step, from_ns, 5 * kMs, /*calls=*/true);
  });
  const Verdict verdict = Why();
  ASSERT_FALSE(verdict.findings.empty());
  const Finding& first = verdict.findings.front();
  EXPECT_EQ(first.kind, FindingKind::kRecompilation);
  EXPECT_EQ(first.ns, (kSteps - 1) * 5 * kMs);
  EXPECT_THAT(
      EvidenceOf(first),
      HasSubstr("11 compilations in 11 of the 11 steps after the first one, 5.00 ms each; the "
                "last one was Torch-Compiled Region: 0/11."));
  int64_t all_ns = 0;
  for (const Finding& finding : verdict.findings) all_ns += finding.ns;
  EXPECT_LE(all_ns, verdict.total_ns);
}

TEST_F(WhyCompileTest, VersionsThatWereThereAreNoCompilations) {
  MakeSteps([&](int step, int64_t from_ns, int64_t) { AddCompiled(step, from_ns, kMs / 100); });
  EXPECT_FALSE(IsCompilationNamed());
}

TEST_F(WhyCompileTest, OneVersionIsCompiledOnce) {
  // The same row later is no compilation, whatever is before it.
  MakeSteps([&](int, int64_t from_ns, int64_t) { AddCompiled(0, from_ns, 4 * kMs); });
  EXPECT_FALSE(IsCompilationNamed());
}

TEST_F(WhyCompileTest, HowAJobBeginsIsNoCauseInTheLoop) {
  MakeSteps([&](int step, int64_t from_ns, int64_t) {
    AddCompiled(std::min(step, 2), from_ns, step <= 2 ? 4 * kMs : kMs / 100);
  });
  EXPECT_FALSE(IsCompilationNamed());
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

// Each step has these waits one after the other, in the calls of the same place.
class WhyWaitsTest : public WhyTest {
 protected:
  struct Wait {
    std::string_view call;
    WaitReason reason;
    int64_t ns;
  };

  Verdict WhyOf(const std::vector<Wait>& waits, int64_t run_queue_ns = 0) {
    maker_.info().system.sched = maker_.info().system.calls = true;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      for (const auto& [call, reason, ns] : waits) {
        maker_.AddSystemEvent(MakeCall(thread_, call, from_ns, from_ns + ns + run_queue_ns, 0));
        maker_.AddSystemEvent(
            MakeOffCpu(thread_, reason, from_ns, from_ns + ns + run_queue_ns, run_queue_ns, call));
        from_ns += ns + run_queue_ns;
      }
    });
    return Why();
  }
};

TEST_F(WhyWaitsTest, NoneOfSeveralEqualWaitsGivesTheName) {
  const Verdict verdict = WhyOf({{"clock_nanosleep", WaitReason::kSleep, 2 * kMs},
                                 {"pselect6", WaitReason::kPoll, 18 * kMs / 10},
                                 {"getrandom", WaitReason::kOther, 17 * kMs / 10}});
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kSystem);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("waits in system calls of several kinds"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("It was in clock_nanosleep for 2.00 ms a step, "
                                              "pselect6 for 1.80 ms, getrandom for 1.70 ms."));
}

TEST_F(WhyWaitsTest, TheNameIsOnlyOfItsOwnWaits) {
  const Verdict verdict = WhyOf({{"clock_nanosleep", WaitReason::kSleep, 4 * kMs},
                                 {"clock_nanosleep", WaitReason::kSignal, 2 * kMs}});
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kSleep);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("That is 67 % of this time"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("It waited 12 times for 48.0 ms"));
}

TEST_F(WhyWaitsTest, AStopIsToldFromAWaitForASignal) {
  const Verdict stopped = WhyOf({{"clock_nanosleep", WaitReason::kStopped, 4 * kMs},
                                 {"getrandom", WaitReason::kStopped, 2 * kMs}});
  const std::optional<Finding> finding = FindKind(stopped, FindingKind::kStopped);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("It was stopped 24 times for 72.0 ms"));
  EXPECT_THAT(EvidenceOf(*finding), testing::Not(HasSubstr("kill -CONT")));
}

TEST_F(WhyWaitsTest, AWaitForASignalIsNoStop) {
  const Verdict verdict = WhyOf({{"pause", WaitReason::kSignal, 4 * kMs}});
  EXPECT_FALSE(FindKind(verdict, FindingKind::kStopped).has_value());
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kSystem);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("waits for a signal"));
}

TEST_F(WhyWaitsTest, ACallIsNotLongerThanItsPartOfTheStep) {
  const Verdict verdict = WhyOf(
      {{"getrandom", WaitReason::kOther, 2 * kMs}, {"pselect6", WaitReason::kPoll, 2 * kMs}}, kMs);
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kSystem);
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->ns, kSteps * 4 * kMs);
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("It was in getrandom for 2.00 ms a step, pselect6 for 2.00 ms."));
}

TEST_F(WhyTest, AReadThatWaitsForAPeerIsNoReading) {
  maker_.info().system.sched = maker_.info().system.calls = true;
  const SystemFileId pipe = maker_.AddSystemFile(SystemFileKind::kPipe, "pipe:[7]");
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    SystemEvent wait = MakeOffCpu(thread_, WaitReason::kIo, from_ns, to_ns, 0, "read");
    wait.off_cpu.waker_pid = Pid{7};
    wait.off_cpu.waker_tid = Tid{8};
    maker_.AddSystemEvent(wait);
    SystemEvent call = MakeCall(thread_, "read", from_ns, to_ns, 4);
    call.file = pipe;
    maker_.AddSystemEvent(call);
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kIo);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("waits for data from a pipe, socket or terminal"));
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("12 calls on pipe:[7] took 72.0 ms; 48 bytes were read."));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("what ended that was thread holder"));
}

TEST_F(WhyTest, AServerThatAcceptsDoesNotWaitForItsOwnAnswers) {
  maker_.info().system.sched = maker_.info().system.calls = true;
  const SystemFileId socket = maker_.AddSystemFile(SystemFileKind::kSocket, "tcp:127.0.0.1:80");
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    const int64_t accepted_ns = to_ns - kMs / 2;
    maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kIo, from_ns, accepted_ns, 0, "accept4"));
    for (const auto& [name, start_ns, end_ns, result] :
         {std::tuple{"accept4", from_ns, accepted_ns, 5},
          {"recvfrom", accepted_ns, to_ns - 1000, 1},
          {"sendto", to_ns - 1000, to_ns, 2}}) {
      SystemEvent call = MakeCall(thread_, name, start_ns, end_ns, result);
      call.file = socket;
      maker_.AddSystemEvent(call);
    }
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kIo);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("for a request, or for a connection"));
  EXPECT_THAT(EvidenceOf(*finding), Not(HasSubstr("written")));
}

// Waits for `reason` in calls that return `result`.
class WhyResultTest : public WhyTest {
 protected:
  std::string WhatOf(FindingKind kind, WaitReason reason, const char* name, int64_t result) {
    maker_.info().system.sched = maker_.info().system.calls = true;
    MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
      SystemEvent wait = MakeOffCpu(thread_, reason, from_ns, to_ns, 0, name);
      wait.around = maker_.AddSystemEvent(MakeCall(thread_, name, from_ns, to_ns, result));
      maker_.AddSystemEvent(wait);
    });
    const std::optional<Finding> finding = FindKind(Why(), kind);
    return finding.has_value() ? finding->what : "";
  }
};

class WhyPollTest : public WhyResultTest {
 protected:
  std::string WhatOf(int64_t result) {
    return WhyResultTest::WhatOf(FindingKind::kPoll, WaitReason::kPoll, "epoll_wait", result);
  }
};

TEST_F(WhyPollTest, ATimerIsNoFileThatBecomesReady) {
  EXPECT_THAT(WhatOf(0), HasSubstr("a timer of its own"));
}

TEST_F(WhyPollTest, AFileThatBecomesReadyIsNoTimer) {
  EXPECT_THAT(WhatOf(1), HasSubstr("to become ready"));
}

TEST_F(WhyTest, ChildrenThatCouldNotBeRecordedAreNoLostRecords) {
  maker_.ledger().follow_failed = 3;
  MakeSteps([](int, int64_t, int64_t) {});
  std::string all;
  for (const std::string& remark : Why().remarks) all += remark;
  EXPECT_THAT(all, HasSubstr("3 child processes were not recorded"));
  EXPECT_THAT(all, Not(HasSubstr("Records were lost")));
}

class WhyTimeoutTest : public WhyResultTest {
 protected:
  std::string WhatOf(int64_t result) {
    return WhyResultTest::WhatOf(FindingKind::kOtherThread, WaitReason::kEvent, "futex", result);
  }
};

TEST_F(WhyTimeoutTest, ATimeoutIsNoThreadThatFinishes) {
  EXPECT_THAT(WhatOf(-110), HasSubstr("waits until a timeout of its own ends that"));
}

TEST_F(WhyTimeoutTest, AThreadThatFinishesIsNoTimeout) {
  EXPECT_THAT(WhatOf(0), HasSubstr("waits for another thread to finish something"));
}

// A loop that polls with a short timeout until an answer comes.
TEST_F(WhyPollTest, TimeoutsBeforeAnAnswerAreAWaitForIt) {
  maker_.info().system.sched = maker_.info().system.calls = true;
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    for (int64_t at_ns = from_ns; at_ns < to_ns; at_ns += kMs) {
      const int64_t end_ns = at_ns + kMs - 10'000;
      SystemEvent wait = MakeOffCpu(thread_, WaitReason::kPoll, at_ns, end_ns, 0, "select");
      const int64_t result = at_ns + kMs >= to_ns ? 1 : 0;
      wait.around = maker_.AddSystemEvent(MakeCall(thread_, "select", at_ns, end_ns, result));
      maker_.AddSystemEvent(wait);
    }
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kPoll);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("to become ready"));
}

// A thread without a CPU is not delayed by what it is in.
TEST_F(WhyTest, ABatchThatHasNoCpuIsNoFaultOfTheLoader) {
  maker_.info().system.sched = true;
  const LabelId next =
      maker_.AddAnnotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.Add(thread_, next, from_ns, to_ns);
    maker_.AddSystemEvent(
        MakeOffCpu(thread_, WaitReason::kPreempted, from_ns, from_ns + 4 * kMs, 4 * kMs));
  });
  const StepParts parts = Parts();
  EXPECT_EQ(parts.of(StepPart::kRunQueue), kSteps * 4 * kMs);
  EXPECT_EQ(parts.of(StepPart::kData), kSteps * 2 * kMs);
}

// Steps without operators.
class WhyMissingTest : public WhyTest {
 protected:
  std::string Text() {
    for (int step = 0; step < kSteps; ++step) {
      maker_.Add(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)),
                 BeginOf(step), BeginOf(step + 1));
    }
    return FormatVerdict(Why());
  }
};

TEST_F(WhyMissingTest, ItIsSaidWhyOperatorsAreMissing) {
  maker_.info().unsupported.push_back({"jumps in the job's code", "no place was free"});
  EXPECT_THAT(Text(), HasSubstr("may be missing"));
}

TEST_F(WhyMissingTest, AJobWithoutOperatorsLacksNone) {
  EXPECT_THAT(Text(), Not(HasSubstr("may be missing")));
}

TEST_F(WhyTest, NothingIsSaidOfNothing) {
  maker_.info().window.duration_ns = 0;
  const Verdict verdict = Why();
  EXPECT_TRUE(verdict.findings.empty());
  EXPECT_FALSE(verdict.remarks.empty());
  EXPECT_THAT(FormatVerdict(verdict), HasSubstr("no time to give reasons for"));
}

TEST(WhyTextTest, ShortTimesHaveAShortUnit) {
  Verdict verdict;
  verdict.are_steps = true;
  verdict.steps = 1;
  verdict.total_ns = 1'000'000;
  for (const int64_t ns : {957'000, 14'300, 4'300}) {
    verdict.findings.emplace_back();
    verdict.findings.back().ns = ns;
  }
  const std::string text = FormatVerdict(verdict);
  EXPECT_THAT(text, HasSubstr("1. 0.957 ms a step"));
  EXPECT_THAT(text, HasSubstr("2. 14 us a step"));
  EXPECT_THAT(text, HasSubstr("3. 4.3 us a step"));
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
