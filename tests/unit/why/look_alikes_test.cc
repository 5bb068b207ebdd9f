// Causes that look like others: each is told as what it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"

namespace proftrace {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class LookAlikesTest : public WhyTest {
 protected:
  LookAlikesTest() {
    SystemActivities& system = maker_.info().system;
    system.sched = system.calls = system.faults = system.operators = true;
  }

  // Faults of 4 ms a step outside of operators, after the call.
  Finding FaultsAfter(const std::string& call, int64_t result,
                      const std::vector<uint64_t>& arguments) {
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      maker_.AddSystemEvent(
          MakeCall(thread_, call, from_ns, from_ns + kMs / 10, result, arguments));
      SystemEvent fault = MakeFault(thread_, false, from_ns + kMs, from_ns + 5 * kMs);
      fault.fault.area = FaultArea::kAnonymous;
      fault.fault.write = true;
      maker_.AddSystemEvent(fault);
    });
    const Verdict verdict = Why();
    return verdict.findings.empty() ? Finding() : verdict.findings.front();
  }

  // Waits of 6 ms a step for a reason that is not known. `call`: as for MakeOffCpu().
  std::string EvidenceOfWaitsIn(std::string_view call) {
    MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
      maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kOther, from_ns, to_ns, 0, call));
    });
    const Verdict verdict = Why();
    return verdict.findings.empty() ? "" : EvidenceOf(verdict.findings.front());
  }

  // Returns the finding about an autograd node that takes 6 ms a step.
  Finding FindNode(const std::string& name) {
    Label label;
    label.name = name;
    label.kind = SpanKind::kAutograd;
    const LabelId node = maker_.AddLabel(label);
    MakeSteps(
        [&](int, int64_t from_ns, int64_t to_ns) { maker_.Add(thread_, node, from_ns, to_ns); });
    return FindKind(Why(), FindingKind::kOneOperator).value_or(Finding());
  }
};

TEST_F(LookAlikesTest, PagesCopiedAfterAForkAreNotNewMemory) {
  const Finding finding = FaultsAfter("clone", 4711, {0x1200011, 0});
  EXPECT_EQ(finding.kind, FindingKind::kFaults);
  EXPECT_THAT(EvidenceOf(finding), HasSubstr("The thread forked 12 times meanwhile"));
  EXPECT_THAT(EvidenceOf(finding), Not(HasSubstr("first time")));
}

TEST_F(LookAlikesTest, AThreadIsNoFork) {
  EXPECT_THAT(EvidenceOf(FaultsAfter("clone", 4711, {0x3d0f00, 0})),
              HasSubstr("used for the first time"));
}

TEST_F(LookAlikesTest, FramesOfDeepCallsAreNoObjects) {
  const std::string text = EvidenceOf(FaultsAfter("munmap", 0, {uint64_t{1} << 40, 16 * 1024}));
  EXPECT_THAT(text, HasSubstr("the frames of deep calls (recursion)"));
  EXPECT_THAT(text, Not(HasSubstr("256 kB")));
}

TEST_F(LookAlikesTest, PiecesOfPythonsAllocatorAreNamed) {
  EXPECT_THAT(EvidenceOf(FaultsAfter("munmap", 0, {uint64_t{1} << 40, 1024 * 1024})),
              HasSubstr("in pieces of 256 kB or 1 MB"));
}

TEST_F(LookAlikesTest, PiecesOfAnotherSizeAreNotPythons) {
  const std::string text = EvidenceOf(FaultsAfter("munmap", 0, {uint64_t{1} << 40, 3 << 20}));
  EXPECT_THAT(text, HasSubstr("objects that are kept would spare that"));
  EXPECT_THAT(text, Not(HasSubstr("256 kB")));
}

TEST_F(LookAlikesTest, ALockOfAFileIsNoLockOfAThread) {
  const SystemFileId lock = maker_.AddSystemFile(SystemFileKind::kRegular, "/data/.lock");
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    SystemEvent call = MakeCall(thread_, "flock", from_ns, to_ns, 0);
    call.file = lock;
    SystemEvent wait = MakeOffCpu(thread_, WaitReason::kLock, from_ns, to_ns, 0, "flock");
    wait.around = maker_.AddSystemEvent(call);
    maker_.AddSystemEvent(wait);
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kLock);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("waits for a lock of a file"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("The file is /data/.lock."));
}

TEST_F(LookAlikesTest, SleepsWithoutAnEndArePolling) {
  MakeSteps([&](int, int64_t from_ns, int64_t) {
    for (int i = 0; i < 50; ++i) {
      const int64_t at_ns = from_ns + i * kMs / 10;
      maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kSleep, at_ns, at_ns + kMs / 11, 0));
    }
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kSleep);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("These are 50 sleeps of 91 us a step"));
}

TEST_F(LookAlikesTest, WaitsInNoCallAreOfAFrozenGroup) {
  EXPECT_THAT(EvidenceOfWaitsIn(""), HasSubstr("its control group was frozen"));
}

TEST_F(LookAlikesTest, WaitsInACallAreNot) {
  EXPECT_THAT(EvidenceOfWaitsIn("msync"), Not(HasSubstr("its control group was frozen")));
}

TEST_F(LookAlikesTest, CallsWithoutAFileHaveTheirName) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.AddSystemEvent(MakeCall(thread_, "msync", from_ns, to_ns, 0));
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kIo);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("12 calls of msync took 72.0 ms"));
  EXPECT_THAT(finding->what, HasSubstr("is on the disk (msync)"));
}

TEST_F(LookAlikesTest, CallsThatWaitForTheDiskAreNoReadsOrWrites) {
  const SystemFileId file = maker_.AddSystemFile(SystemFileKind::kRegular, "/data/metrics.db");
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    SystemEvent write = MakeCall(thread_, "write", from_ns, from_ns + kMs, 512);
    SystemEvent sync = MakeCall(thread_, "fdatasync", from_ns + kMs, to_ns, 0);
    write.file = sync.file = file;
    maker_.AddSystemEvent(write);
    maker_.AddSystemEvent(sync);
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kIo);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("waits until what it wrote is on the disk (fdatasync)"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("24 calls on /data/metrics.db took 72.0 ms, 83 % of "
                                              "it in fdatasync()."));
}

// Few faults of many read from the disk, and take nearly all of the time.
TEST_F(LookAlikesTest, PagesReadFromADiskAreTold) {
  MakeSteps([&](int step, int64_t from_ns, int64_t to_ns) {
    for (int i = 0; i < 10; ++i) {
      const int64_t at_ns = from_ns + i * kMs / 100;
      maker_.AddSystemEvent(MakeFault(thread_, false, at_ns, at_ns + kMs / 200));
    }
    if (step % 2 == 0) maker_.AddSystemEvent(MakeFault(thread_, true, from_ns + kMs, to_ns));
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kFaults);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("waits until pages of a mapped file are read from a disk"));
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("Pages were read from a disk 6 times in 12 steps, which took 9"));
}

TEST_F(LookAlikesTest, CallsThatLookFilesUpReadNothing) {
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.AddSystemEvent(MakeCall(thread_, "read", from_ns, from_ns + kMs, 512));
    maker_.AddSystemEvent(MakeCall(thread_, "newfstatat", from_ns + kMs, to_ns, 0));
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kIo);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what,
              HasSubstr("is mostly in calls about files that read and write nothing (newfstatat)"));
}

// Each request has a socket of its own, beside one that is named alike again and again.
TEST_F(LookAlikesTest, SocketsOfOneServerAreOnePlace) {
  const SystemFileId unconnected = maker_.AddSystemFile(SystemFileKind::kSocket, "tcp:0.0.0.0:0");
  MakeSteps([&](int step, int64_t from_ns, int64_t to_ns) {
    SystemEvent open = MakeCall(thread_, "connect", from_ns, from_ns + kMs, 0);
    open.file = unconnected;
    maker_.AddSystemEvent(open);
    SystemEvent read = MakeCall(thread_, "recvfrom", from_ns + kMs, to_ns, 4);
    read.file = maker_.AddSystemFile(
        SystemFileKind::kSocket, "tcp:10.0.0.2:" + std::to_string(40000 + step) + "->10.0.0.1:80");
    maker_.AddSystemEvent(read);
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kIo);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("12 calls on 12 sockets to 10.0.0.1:80 took 60.0 ms; 48 bytes were read."));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("1 other file took less"));
}

TEST_F(LookAlikesTest, SocketsThatAServerAcceptedAreItsOwn) {
  MakeSteps([&](int step, int64_t from_ns, int64_t to_ns) {
    SystemEvent write = MakeCall(thread_, "sendto", from_ns, to_ns, 4);
    write.file = maker_.AddSystemFile(SystemFileKind::kSocket,
                                      "tcp:[::1]:80->[::1]:" + std::to_string(40000 + step));
    maker_.AddSystemEvent(write);
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kIo);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("12 calls on 12 sockets of [::1]:80 took 72.0 ms"));
}

TEST_F(LookAlikesTest, AFunctionOfTheJobsOwnIsPython) {
  const Finding finding = FindNode("ScaleBackward");
  EXPECT_THAT(finding.what, HasSubstr("is in a Function of the job's own, ScaleBackward"));
  EXPECT_EQ(finding.next, "--sample 99Hz");
}

TEST_F(LookAlikesTest, NodesOfTheEngineAreNoPython) {
  EXPECT_THAT(FindNode("MulBackward0").what, HasSubstr("operators compute"));
}

// Steps of 2 ms, of which those from `from` to `until` take 20 ms, with an operator or without.
class SlowStepsTest : public WhyTest {
 protected:
  std::string TextOf(int from, int until, bool has_operator) {
    int64_t now_ns = kStepNs;
    for (int step = 0; step < 40; ++step) {
      const bool is_slow = step >= from && step < until;
      const int64_t end_ns = now_ns + (is_slow ? 20 : 2) * kMs;
      maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), now_ns);
      maker_.Add(thread_, multiply_, now_ns, has_operator ? end_ns - kMs / 2 : now_ns + kMs);
      if (is_slow && slow_calls_more_) maker_.Add(thread_, multiply_, end_ns - kMs / 2, end_ns);
      maker_.End(thread_, end_ns);
      now_ns = end_ns;
    }
    maker_.info().window.duration_ns = now_ns;
    const std::optional<Finding> finding = FindKind(Why(), FindingKind::kUnevenSteps);
    return finding.has_value() ? EvidenceOf(*finding) : "";
  }

  bool slow_calls_more_ = false;
};

TEST_F(SlowStepsTest, AJobThatGoesOnOtherwiseIsNoRareEvent) {
  slow_calls_more_ = true;
  EXPECT_THAT(TextOf(28, 40, true),
              HasSubstr("12 of them follow each other, up to the last step, from 56.0 ms after the "
                        "first step on: the job did something else then."));
}

TEST_F(SlowStepsTest, AJobThatDoesTheSameMoreSlowlyIsNotOneThatDoesSomethingElse) {
  const std::string text = TextOf(28, 40, true);
  EXPECT_THAT(text, HasSubstr("12 of them follow each other, up to the last step"));
  EXPECT_THAT(text, HasSubstr("the same number of operators took longer then"));
  EXPECT_THAT(text, Not(HasSubstr("something else")));
}

// Steps of which each takes `more_us` longer than the one before; every `calls_each`th calls one
// operator more.
class GrowingStepsTest : public LookAlikesTest {
 protected:
  std::string RemarksOf(int64_t more_us, int calls_each) {
    int64_t now_ns = kStepNs;
    for (int step = 0; step < 40; ++step) {
      const int64_t end_ns = now_ns + 10 * kMs + (step * more_us + (step * 7) % 5 * 100) * 1000;
      maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), now_ns);
      for (int call = 0; call < 5 + step / calls_each; ++call) {
        maker_.Add(thread_, multiply_, now_ns + call * kMs / 10, now_ns + (call + 1) * kMs / 10);
      }
      maker_.End(thread_, end_ns);
      now_ns = end_ns;
    }
    maker_.info().window.duration_ns = now_ns;
    std::string all;
    for (const std::string& remark : Why().remarks) all += remark + " ";
    return all;
  }
};

TEST_F(GrowingStepsTest, AGraphThatGrowsIsTold) {
  const std::string text = RemarksOf(100, 2);
  EXPECT_THAT(text, HasSubstr("Steps become longer: 10.7 ms at first, 13.7 ms at last"));
  EXPECT_THAT(text, HasSubstr("They call 7 operators at first, 22 at last"));
}

TEST_F(GrowingStepsTest, TheSameWorkThatTakesLongerIsNoGraph) {
  EXPECT_THAT(RemarksOf(100, 100), HasSubstr("at last (medians of the first and the last quarter "
                                             "of the steps), with no more operators."));
}

TEST_F(GrowingStepsTest, StepsThatVaryDoNotGrow) {
  EXPECT_THAT(RemarksOf(0, 100), Not(HasSubstr("become longer")));
}

// The median of the last steps is that of the long ones, and of the first steps that of the short
// ones.
TEST_F(LookAlikesTest, StepsOfTwoKindsDoNotGrow) {
  int64_t now_ns = kStepNs;
  for (int step = 0; step < 80; ++step) {
    const int short_ones = 14 - step / 20 * 3;  // of twenty
    const bool is_long = step % 20 >= short_ones;
    const int64_t end_ns = now_ns + (is_long ? 20 * kMs : 2 * kMs) + step * 1000;
    maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), now_ns);
    for (int call = 0; call < 20 + step / 30; ++call) {
      maker_.Add(thread_, multiply_, now_ns + call * kMs / 20, now_ns + (call + 1) * kMs / 20);
    }
    maker_.End(thread_, end_ns);
    now_ns = end_ns;
  }
  maker_.info().window.duration_ns = now_ns;
  for (const std::string& remark : Why().remarks) {
    EXPECT_THAT(remark, Not(HasSubstr("become longer")));
  }
}

TEST_F(SlowStepsTest, ARowThatExplainsNothingIsNotNamed) {
  EXPECT_THAT(TextOf(3, 7, false), Not(HasSubstr("grows most")));
}

TEST_F(SlowStepsTest, ARowThatExplainsItIs) {
  EXPECT_THAT(TextOf(3, 7, true), HasSubstr("Of the rows, aten::mm grows most: 18.0 ms more"));
}

// Steps that alternate between two kinds.
class StepKindsTest : public WhyTest {
 protected:
  // `length_of(step)`: ns. Returns what is said of uneven steps.
  template <typename LengthOf>
  std::string TextOf(LengthOf&& length_of) {
    int64_t at_ns = 10 * kMs;
    for (int step = 0; step < 60; ++step) {
      const int64_t end_ns = at_ns + length_of(step);
      maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), at_ns);
      maker_.Add(thread_, multiply_, at_ns + kMs / 10, end_ns - kMs / 10);
      maker_.End(thread_, end_ns);
      at_ns = end_ns;
    }
    maker_.info().window.duration_ns = at_ns + kMs;
    const std::optional<Finding> finding = FindKind(Why(), FindingKind::kUnevenSteps);
    return finding.has_value() ? finding->what + ": " + EvidenceOf(*finding) : "";
  }
};

TEST_F(StepKindsTest, EverySecondStepIsLong) {
  EXPECT_THAT(
      TextOf([](int step) { return step % 2 == 0 ? (2 + step % 5) * kMs : (45 + step) * kMs; }),
      HasSubstr("steps are of two kinds: 30 take 4.00 ms, 30 take 76.0 ms (medians); every "
                "2nd step is long: A long step has"));
}

TEST_F(StepKindsTest, MostStepsMayBeLong) {
  EXPECT_THAT(TextOf([](int step) { return step % 3 == 0 ? 2 * kMs : 20 * kMs; }),
              HasSubstr("steps are of two kinds: 20 take 2.00 ms, 40 take 20.0 ms (medians): "));
}

// A gap among few steps is chance.
TEST_F(WhyTest, FewStepsThatVaryAreOfNoKind) {
  int64_t at_ns = 10 * kMs;
  for (const int64_t length_ms : {12, 31, 10, 20, 40, 11, 21, 30}) {
    maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(at_ns)), at_ns);
    maker_.Add(thread_, multiply_, at_ns + kMs, at_ns + (length_ms - 1) * kMs);
    maker_.End(thread_, at_ns + length_ms * kMs);
    at_ns += length_ms * kMs;
  }
  maker_.info().window.duration_ns = at_ns + kMs;
  EXPECT_FALSE(FindKind(Why(), FindingKind::kUnevenSteps).has_value());
}

TEST_F(StepKindsTest, LengthsThatVaryAreOfNoKind) {
  EXPECT_EQ(TextOf([](int step) { return (5 + step % 17) * kMs; }), "");
}

TEST_F(StepKindsTest, AFewLongStepsAreNoKind) {
  EXPECT_THAT(TextOf([](int step) { return step % 10 == 9 ? 50 * kMs : 5 * kMs; }),
              HasSubstr("every 10th step takes longer than the others: up to 50.0 ms"));
}

TEST_F(WhyTest, WaitsOutsideOfStepsAreNotCounted) {
  maker_.info().system.sched = true;
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kSleep, from_ns, to_ns, 0));
  });
  const int64_t end_ns = BeginOf(kSteps);
  maker_.AddSystemEvent(
      MakeOffCpu(thread_, WaitReason::kSleep, end_ns + kMs, end_ns + 2000 * kMs, 0));
  const std::optional<Finding> sleep = FindKind(Why(), FindingKind::kSleep);
  ASSERT_TRUE(sleep.has_value());
  EXPECT_THAT(EvidenceOf(*sleep), HasSubstr("It waited 12 times for 72.0 ms"));
}

// A recording takes CPU time itself while it starts.
TEST_F(WhyTest, StepsInTheFirstHalfSecondAreLeftOut) {
  const auto steps_from = [](int64_t start_ns) {
    TimelineMaker maker;
    const ThreadIndex thread = maker.AddThread(7, 7, "main");
    const LabelId multiply = maker.AddOperator("aten::mm");
    for (int step = 0; step < 60; ++step) {
      const int64_t at_ns = step * 50 * kMs;
      maker.Begin(thread, maker.AddAnnotation("ProfilerStep#" + std::to_string(step)), at_ns);
      maker.Add(thread, multiply, at_ns + kMs, at_ns + 40 * kMs);
      maker.End(thread, at_ns + 50 * kMs);
    }
    maker.info().window = {.start_ns = start_ns, .duration_ns = 3'000'000'000};
    const std::unique_ptr<Timeline> timeline = maker.Finish();
    const Aggregates aggregates = Aggregate(*timeline, {});
    return FindVerdict(*timeline, aggregates).steps;
  };
  EXPECT_EQ(steps_from(0), 50u);
  EXPECT_EQ(steps_from(-500 * kMs), 60u);
  EXPECT_EQ(steps_from(1500 * kMs), 60u);  // too few others
}

}  // namespace
}  // namespace proftrace
