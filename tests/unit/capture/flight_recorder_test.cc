// When a flight recorder writes what it has, and what it says of it.
#include "userspace/capture/session/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/memory_capture.h"
#include "tests/support/record_maker.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::SizeIs;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kStart = 1000 * kSecond;
constexpr int64_t kWindow = 30 * kSecond;
constexpr int64_t kSettle = kSecond / 2;
constexpr uint32_t kTarget = 100;
constexpr uint32_t kChild = 200;

FlightTrigger Trigger(FlightTrigger::Kind kind, const std::string& text) {
  FlightTrigger trigger;
  trigger.kind = kind;
  trigger.text = text;
  return trigger;
}

class FlightRecorderTest : public testing::Test {
 protected:
  int64_t summary_period_ns_ = 0;

  void Begin(std::vector<FlightTrigger> triggers, uint32_t most_dumps = 10,
             size_t most_bytes = 64u << 20, bool asks_for_past = false) {
    FlightOptions options;
    options.asks_for_past = asks_for_past;
    if (asks_for_past) options.asked_reason = "seen";
    options.window_ns = kWindow;
    options.most_bytes = most_bytes;
    options.triggers = std::move(triggers);
    options.most_dumps = most_dumps;
    options.signals = &signals_;
    options.summary_period_ns = summary_period_ns_;
    keeper_ = std::make_unique<FlightKeeper>(FlightRecorder::LimitsOf(options),
                                             [this] { return now_ns_; });
    flight_ = std::make_unique<FlightRecorder>(options, [](Pid pid) { return Raw(pid) == kChild; });
    flight_->Start(kStart, {Pid{kTarget}}, kSettle);
  }
  void Exit(uint32_t pid, int64_t ns, uint32_t exit_code, bool is_process = true) {
    abi::pt_exit_record record{};
    record.head = RecordMaker::Head(abi::PT_THREAD_EXIT, pid, ns, 0, 0);
    record.head.pid = pid;
    record.head.words = sizeof(record) / 8;
    record.group_dead = is_process ? 1 : 0;
    record.exit_code = exit_code;
    flight_->Observe(record.head, std::as_bytes(std::span(&record, 1)));
  }
  // The reason of the dump that is due by then; empty = none.
  std::string Reason(int64_t now_ns) {
    flight_->Look(now_ns);
    return flight_->IsDue(now_ns) ? Take(now_ns).reason : "";
  }
  FlightDump Take(int64_t now_ns, bool is_end = false) {
    MetadataWriter words;
    Window recording;
    recording.start_ns = kStart;
    recording.attach_s = 2;
    return flight_->Take(now_ns, is_end, *keeper_, recording, Cost(), &words);
  }
  // Steps of a millisecond each, and of `lengths` after them, up to `now_ns`.
  void Steps(int64_t now_ns, size_t count, const std::vector<int64_t>& lengths,
             double confidence = 0.9, uint32_t tid = kTarget) {
    RecordedSteps steps;
    steps.pid = Pid{kTarget};
    steps.tid = Tid{tid};
    steps.confidence = confidence;
    int64_t ns = kStart + kSecond;
    const auto add = [&](int64_t length_ns) {
      steps.intervals.emplace_back(ns, ns + length_ns);
      ns += length_ns;
    };
    for (size_t i = 0; i < count; ++i) add(1'000'000);
    for (const int64_t length_ns : lengths) add(length_ns);
    flight_->OnSteps(steps, now_ns);
  }

  std::atomic<uint32_t> signals_ = 0;
  int64_t now_ns_ = kStart;
  std::unique_ptr<FlightKeeper> keeper_;
  std::unique_ptr<FlightRecorder> flight_;
};

TEST_F(FlightRecorderTest, ASignalIsADump) {
  Begin({});
  EXPECT_EQ(Reason(kStart + kSecond), "");
  ++signals_;
  const int64_t asked_ns = kStart + 100 * kSecond;
  EXPECT_EQ(Reason(asked_ns), "") << "what happened just now is not there yet";
  const FlightDump dump = Take(asked_ns + kSettle);
  EXPECT_EQ(dump.reason, "SIGUSR1");
  EXPECT_EQ(dump.window.start_ns, asked_ns - kWindow);
  EXPECT_EQ(dump.window.duration_ns, kWindow);
  EXPECT_EQ(Reason(asked_ns + 2 * kSettle), "");
}

TEST_F(FlightRecorderTest, WhatIsAskedOfThePastIsTakenAtOnce) {
  Begin({}, 10, 64u << 20, /*asks_for_past=*/true);
  const int64_t asked_ns = kStart + 100 * kSecond;
  ++signals_;
  flight_->Look(asked_ns);
  ++signals_;
  flight_->Look(asked_ns);
  ASSERT_TRUE(flight_->IsDue(asked_ns));
  const FlightDump dump = Take(asked_ns);
  EXPECT_EQ(dump.reason, "seen");
  EXPECT_EQ(dump.window.start_ns, asked_ns - kSettle - kWindow);
  EXPECT_EQ(dump.window.duration_ns, kWindow);
  ++signals_;
  flight_->Look(kStart + kSettle / 2);  // before anything can be told
  EXPECT_EQ(Take(kStart + kSettle / 2).window.duration_ns, 0);
}

TEST_F(FlightRecorderTest, TheWindowBeginsWithTheRecordingAtMost) {
  Begin({});
  const FlightDump dump = Take(kStart + kSecond, /*is_end=*/true);
  EXPECT_EQ(dump.reason, "end");
  EXPECT_EQ(dump.window.start_ns, kStart);
  EXPECT_EQ(dump.window.duration_ns, kSecond);
  MemoryCapture file;
  ASSERT_TRUE(dump.WriteTo(file.Writer().get()).ok());
  const CaptureMetadata metadata = file.Reader()->metadata();
  EXPECT_TRUE(metadata.has_end);
  EXPECT_TRUE(metadata.is_part);
  EXPECT_EQ(metadata.info.window.start_ns, kStart);
  EXPECT_EQ(metadata.info.window.duration_ns, kSecond);
  ASSERT_TRUE(metadata.info.flight.has_value());
  EXPECT_EQ(metadata.info.flight->reason, "end");
  EXPECT_EQ(metadata.info.flight->asked_s, 30);
  EXPECT_THAT(metadata.info.unsupported, IsEmpty());
}

TEST_F(FlightRecorderTest, AShorterWindowIsSaid) {
  Begin({}, 10, 50'000);
  for (int i = 0; i < 600; ++i) {
    RecordMaker maker;
    for (int j = 0; j < 50; ++j) {
      maker.Allocation(7, kStart + i * kSecond / 20 + j,
                       0x123456789u * static_cast<unsigned>(i * j),
                       0x9e3779b97f4a7c15u * static_cast<unsigned>(i + j));
    }
    now_ns_ = kStart + (i + 1) * kSecond / 20;
    ASSERT_TRUE(keeper_->AppendRecords(maker.bytes()).ok());
  }
  const FlightDump dump = Take(kStart + kWindow, /*is_end=*/true);
  EXPECT_GT(dump.window.start_ns, kStart);
  EXPECT_EQ(dump.window.start_ns + dump.window.duration_ns, kStart + kWindow);
  MemoryCapture file;
  ASSERT_TRUE(dump.WriteTo(file.Writer().get()).ok());
  const CaptureMetadata metadata = file.Reader()->metadata();
  ASSERT_THAT(metadata.info.unsupported, SizeIs(1));
  EXPECT_THAT(metadata.info.unsupported[0].reason,
              MatchesRegex("[0-9.]+ s of 30.0 s were kept: --flight-recorder-memory.*"));
}

TEST_F(FlightRecorderTest, LossesAreThoseOfTheWindow) {
  Begin({});
  Ledger losses;
  for (int second = 0; second <= 100; ++second) {
    losses.ring_lost += second < 50 ? 1000 : 1;
    flight_->NoteLosses(kStart + second * kSecond, losses);
  }
  const FlightDump dump = Take(kStart + 100 * kSecond, /*is_end=*/true);
  MemoryCapture file;
  ASSERT_TRUE(dump.WriteTo(file.Writer().get()).ok());
  EXPECT_EQ(file.Reader()->metadata().kernel_ledger.ring_lost, 30u);
}

TEST_F(FlightRecorderTest, EveryKindOfLossIsTold) {
  Begin({});
  Ledger losses;
  losses.ring_lost = losses.read_failed = losses.follow_failed = losses.demoted = 5;
  losses.samples_lost = losses.samples_unsteady = losses.system_lost = 5;
  flight_->NoteLosses(kStart, losses);
  Ledger expected;
  expected.ring_lost = losses.ring_lost += 1;
  expected.ring_lost = 1;
  expected.read_failed = 2;
  expected.follow_failed = 3;
  expected.demoted = 4;
  expected.samples_lost = 5;
  expected.samples_unsteady = 6;
  expected.system_lost = 7;
  losses.read_failed += 2;
  losses.follow_failed += 3;
  losses.demoted += 4;
  losses.samples_lost += 5;
  losses.samples_unsteady += 6;
  losses.system_lost += 7;
  flight_->NoteLosses(kStart + kSecond, losses);
  const FlightDump dump = Take(kStart + kSecond, /*is_end=*/true);
  MemoryCapture file;
  ASSERT_TRUE(dump.WriteTo(file.Writer().get()).ok());
  EXPECT_EQ(file.Reader()->metadata().kernel_ledger, expected);
}

TEST_F(FlightRecorderTest, ATargetsEndIsADump) {
  Begin({Trigger(FlightTrigger::Kind::kExit, "exit")});
  Exit(kTarget, kStart + kSecond, 0, /*is_process=*/false);
  EXPECT_EQ(Reason(kStart + 2 * kSecond), "");
  Exit(kTarget, kStart + kSecond, 3 << 8);
  EXPECT_EQ(Reason(kStart + 2 * kSecond), "exit: PID 100 ended with exit code 3");
}

TEST_F(FlightRecorderTest, AChildsEndIsADumpWhenItFails) {
  struct Case {
    uint32_t pid;
    uint32_t exit_code;
    std::string reason;
  };
  for (const Case& one :
       {Case{kChild, 0, ""}, Case{kChild, SIGTERM, ""},
        Case{kChild, 1 << 8, "exit: PID 200 ended with exit code 1"},
        Case{kChild, SIGKILL, "exit: PID 200 was ended by SIGKILL"},
        Case{kChild, SIGSEGV | 0x80, "exit: PID 200 was ended by SIGSEGV"}, Case{300, SIGSEGV, ""},
        Case{kTarget, SIGTERM, "exit: PID 100 was ended by SIGTERM"}}) {
    Begin({Trigger(FlightTrigger::Kind::kExit, "exit")});
    Exit(one.pid, kStart + kSecond, one.exit_code);
    EXPECT_EQ(Reason(kStart + 2 * kSecond), one.reason);
  }
}

TEST_F(FlightRecorderTest, NothingFiresThatWasNotAskedFor) {
  Begin({});
  Exit(kTarget, kStart + kSecond, SIGKILL);
  RecordMaker maker;
  maker.Memory(abi::PT_OUT_OF_MEMORY, 7, kStart + kSecond, 0, -1, 0, 1 << 30, 0, 0);
  abi::pt_record head;
  std::memcpy(&head, maker.bytes().data(), sizeof(head));
  flight_->Observe(head, maker.bytes());
  Steps(kStart + 2 * kSecond, 20, {kSecond});
  EXPECT_EQ(Reason(kStart + 100 * kSecond), "");
}

TEST_F(FlightRecorderTest, AFailedAllocationIsADump) {
  Begin({Trigger(FlightTrigger::Kind::kOutOfMemory, "oom")});
  RecordMaker maker;
  maker.Memory(abi::PT_OUT_OF_MEMORY, 7, kStart + kSecond, 0, -1, 0, 12345, 0, 0);
  abi::pt_record head;
  std::memcpy(&head, maker.bytes().data(), sizeof(head));
  flight_->Observe(head, maker.bytes());
  EXPECT_EQ(Reason(kStart + 2 * kSecond), "oom: PID 100 was refused 12345 bytes");
}

TEST_F(FlightRecorderTest, TriggersMakeOneDumpAWindowAndNoMoreThanAskedFor) {
  Begin({Trigger(FlightTrigger::Kind::kExit, "exit")}, /*most_dumps=*/2);
  int dumps = 0;
  for (int second = 1; second <= 200; ++second) {
    Exit(kChild, kStart + second * kSecond, 1 << 8);
    dumps += Reason(kStart + second * kSecond + kSettle).empty() ? 0 : 1;
  }
  EXPECT_EQ(dumps, 2);
  EXPECT_EQ(flight_->passed_over(), 198u);
  ++signals_;
  (void)Reason(kStart + 300 * kSecond);
  EXPECT_EQ(Reason(kStart + 301 * kSecond), "SIGUSR1") << "the user is not bound by that";
}

TEST_F(FlightRecorderTest, WhatHappensTogetherIsOneDump) {
  Begin({Trigger(FlightTrigger::Kind::kExit, "exit")});
  ++signals_;
  flight_->Look(kStart + kSecond);
  Exit(kTarget, kStart + kSecond + 1, 0);
  Exit(kChild, kStart + kSecond + 2, SIGKILL);
  const FlightDump dump = Take(kStart + kSecond + 3, /*is_end=*/true);
  EXPECT_EQ(dump.reason, "SIGUSR1; exit: PID 100 ended with exit code 0; end");
  EXPECT_EQ(flight_->passed_over(), 0u);
}

TEST_F(FlightRecorderTest, ASlowStepIsADump) {
  FlightTrigger trigger = Trigger(FlightTrigger::Kind::kStepRatio, "step>2x");
  trigger.ratio = 2;
  Begin({trigger});
  Steps(kStart + 2 * kSecond, 20, {1'900'000});
  EXPECT_EQ(Reason(kStart + 3 * kSecond), "");
  Steps(kStart + 3 * kSecond, 20, {1'900'000, 1'000'000, 2'100'000}, /*confidence=*/0.3);
  EXPECT_EQ(Reason(kStart + 4 * kSecond), "") << "they may be no steps";
  Steps(kStart + 4 * kSecond, 20, {1'900'000, 1'000'000, 2'100'000, 1'000'000});
  EXPECT_EQ(Reason(kStart + 5 * kSecond),
            "step>2x: step 22 took 2.1 ms, the median of those before it is 1.0 ms");
  Steps(kStart + 40 * kSecond, 20, {1'900'000, 1'000'000, 2'100'000, 1'000'000, 1'000'000});
  EXPECT_EQ(Reason(kStart + 41 * kSecond), "") << "each step once";
}

TEST_F(FlightRecorderTest, FirstStepsAreNotCompared) {
  FlightTrigger trigger = Trigger(FlightTrigger::Kind::kStepRatio, "step>2x");
  trigger.ratio = 2;
  Begin({trigger});
  Steps(kStart + 2 * kSecond, FlightRecorder::kFewestSteps - 1, {9'000'000});
  EXPECT_EQ(Reason(kStart + 3 * kSecond), "");
}

TEST_F(FlightRecorderTest, ALongStepIsADump) {
  FlightTrigger trigger = Trigger(FlightTrigger::Kind::kStepLength, "step>500ms");
  trigger.length_ns = 500'000'000;
  Begin({trigger});
  Steps(kStart + 3 * kSecond, 1, {600'000'000});
  EXPECT_EQ(Reason(kStart + 4 * kSecond), "step>500ms: step 1 took 600.0 ms");
}

TEST_F(FlightRecorderTest, PastStepsOfAnotherThreadAreNoNews) {
  FlightTrigger trigger = Trigger(FlightTrigger::Kind::kStepLength, "step>500ms");
  trigger.length_ns = 500'000'000;
  Begin({trigger});
  Steps(kStart + 3 * kSecond, 10, {});
  Steps(kStart + 4 * kSecond, 5, {600'000'000, 1'000'000}, 0.9, /*tid=*/9);
  EXPECT_EQ(Reason(kStart + 5 * kSecond), "");
  Steps(kStart + 6 * kSecond, 5, {600'000'000, 1'000'000, 700'000'000}, 0.9, /*tid=*/9);
  EXPECT_THAT(Reason(kStart + 7 * kSecond), HasSubstr("step 7 took 700.0 ms"));
}

// The wall clock, 1000 s ahead of the other one and a quarter of a minute into one.
int64_t Wall(int64_t now_ns) { return now_ns + 1000 * kSecond + 35 * kSecond; }

TEST_F(FlightRecorderTest, ASummaryIsDueWhenTheWallClockPassesAPeriod) {
  summary_period_ns_ = 60 * kSecond;
  Begin({});
  // 1000 + 1000 + 35 s: a minute begins 5 s later.
  for (int64_t second = 0; second < 5; ++second) {
    flight_->LookAtWall(kStart + second * kSecond, Wall(kStart + second * kSecond));
    EXPECT_FALSE(flight_->IsSummaryDue(kStart + second * kSecond));
  }
  const int64_t seen_ns = kStart + 5 * kSecond + 3;
  flight_->LookAtWall(seen_ns, Wall(seen_ns));
  EXPECT_FALSE(flight_->IsSummaryDue(seen_ns));  // what happened has not all come yet
  ASSERT_TRUE(flight_->IsSummaryDue(seen_ns + kSettle));
  MetadataWriter words;
  Window recording;
  recording.start_ns = kStart;
  const FlightDump dump = flight_->TakeSummary(*keeper_, recording, Cost(), &words);
  EXPECT_EQ(dump.window.start_ns, kStart);
  EXPECT_EQ(dump.window.start_ns + dump.window.duration_ns, kStart + 5 * kSecond);
  EXPECT_FALSE(flight_->IsSummaryDue(seen_ns + kSettle));
  EXPECT_EQ(Reason(seen_ns + kSettle), "");  // it is no dump
}

TEST_F(FlightRecorderTest, SummariesLieSideBySide) {
  summary_period_ns_ = 20 * kSecond;
  Begin({});
  MetadataWriter words;
  Window recording;
  recording.start_ns = kStart;
  int64_t until_ns = 0;
  // The wall clock goes slower than the other one, then faster.
  for (const int64_t wall_s : {0, 10, 30, 50}) {
    const int64_t now_ns = kStart + wall_s * kSecond + (wall_s == 30 ? kSecond / 100 : 0);
    flight_->LookAtWall(now_ns, Wall(kStart + wall_s * kSecond));
    if (!flight_->IsSummaryDue(now_ns + kSettle)) continue;
    const FlightDump dump = flight_->TakeSummary(*keeper_, recording, Cost(), &words);
    EXPECT_GE(dump.window.start_ns, until_ns);
    until_ns = dump.window.start_ns + dump.window.duration_ns;
  }
  EXPECT_EQ(until_ns, kStart + 45 * kSecond);
}

TEST_F(FlightRecorderTest, AWallClockThatIsSetBackIsNoNewPeriod) {
  summary_period_ns_ = 60 * kSecond;
  Begin({});
  flight_->LookAtWall(kStart, Wall(kStart));
  flight_->LookAtWall(kStart + kSecond, Wall(kStart + kSecond) - 3600 * kSecond);
  EXPECT_FALSE(flight_->IsSummaryDue(kStart + 10 * kSecond));
}

TEST_F(FlightRecorderTest, WithoutAPeriodThereIsNoSummary) {
  Begin({});
  flight_->LookAtWall(kStart, Wall(kStart));
  flight_->LookAtWall(kStart + 600 * kSecond, Wall(kStart + 600 * kSecond));
  EXPECT_FALSE(flight_->IsSummaryDue(kStart + 700 * kSecond));
}

}  // namespace
}  // namespace proftrace
