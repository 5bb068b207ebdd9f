// What the recording itself took of the steps' time: a part of its own, after the causes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"

namespace proftrace {
namespace {

using testing::HasSubstr;

class RecordingRulesTest : public WhyTest {
 protected:
  RecordingRulesTest() {
    maker_.info().system.sched = true;
    maker_.info().system.faults = true;
    maker_.info().system.calls = true;
    maker_.info().system.operators = true;
  }

  // Each step has an operator of 6 ms with four faults in it. A fault takes 0.3 ms, and another one
  // comes 1.5 ms after its begin.
  void MakeFaults() {
    MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
      const SpanId fill = maker_.Add(thread_, fill_, from_ns, to_ns);
      for (int i = 0; i < 4; ++i) {
        const int64_t at_ns = from_ns + i * 3 * kMs / 2;
        SystemEvent fault = MakeFault(thread_, false, at_ns, at_ns + 3 * kMs / 10);
        fault.span = fill;
        maker_.AddSystemEvent(fault);
      }
    });
  }

  LabelId fill_ = maker_.AddOperator("aten::fill_");
};

TEST_F(RecordingRulesTest, RecordsOfFaultsAreTakenOutOfTheOperatorAroundThem) {
  maker_.info().cost.system = {.call = 1'000, .fault = 700'000, .fault_beside = 400'000};
  MakeFaults();
  const StepParts parts = Parts();
  EXPECT_EQ(parts.of(StepPart::kFaults), kSteps * 4 * 7 * kMs / 10);
  EXPECT_EQ(parts.of(StepPart::kRecording), kSteps * 4 * 7 * kMs / 10);
  EXPECT_EQ(parts.of(StepPart::kOperators), kSteps * (2 * kMs + 4 * kMs / 10));
  const Verdict verdict = FindVerdict(*timeline_, aggregates_);
  ASSERT_EQ(verdict.findings.size(), 4u);
  EXPECT_EQ(verdict.findings[0].kind, FindingKind::kFaults);
  EXPECT_THAT(EvidenceOf(verdict.findings[0]), HasSubstr("400 us are the way into the kernel"));
  EXPECT_EQ(verdict.findings[1].kind, FindingKind::kOperators);
  EXPECT_EQ(verdict.findings[2].kind, FindingKind::kPython);
  const Finding& recording = verdict.findings[3];
  EXPECT_EQ(recording.kind, FindingKind::kRecording);
  EXPECT_EQ(recording.ns, parts.of(StepPart::kRecording));
  EXPECT_FALSE(recording.is_part_of_others());
  EXPECT_THAT(EvidenceOf(recording), HasSubstr("4 records of faults, 0 records of the others"));
  EXPECT_THAT(EvidenceOf(recording),
              HasSubstr("Without them a step would take about 7.20 ms, so that"));
}

// After the causes, time of its own comes before what is part of the others, though that is more.
TEST_F(RecordingRulesTest, TimeOfItsOwnIsToldBeforePartsOfTheOthers) {
  maker_.info().cost.system = {.call = 1'000, .fault = 200'000, .fault_beside = 0};
  maker_.info().has_end = true;
  maker_.info().cost.probe_hits = 1'000;
  maker_.info().cost.probe_ns_per_hit = 50'000;
  MakeFaults();
  const Verdict verdict = Why();
  ASSERT_GE(verdict.findings.size(), 2u);
  const Finding& last = verdict.findings.back();
  const Finding& before = verdict.findings[verdict.findings.size() - 2];
  EXPECT_TRUE(last.is_part_of_others());
  EXPECT_EQ(before.kind, FindingKind::kRecording);
  EXPECT_FALSE(before.is_part_of_others());
  EXPECT_GT(last.ns, before.ns);
}

// What records are said to take ends where the next event begins.
TEST_F(RecordingRulesTest, ARecordTakesNoTimeOfTheNextFault) {
  maker_.info().cost.system = {.call = 0, .fault = 1'400'000, .fault_beside = 0};
  MakeFaults();
  const StepParts parts = Parts();
  EXPECT_EQ(parts.of(StepPart::kFaults), kSteps * 4 * 3 * kMs / 10);
  EXPECT_EQ(parts.of(StepPart::kRecording), kSteps * (3 * 12 * kMs / 10 + 14 * kMs / 10));
  EXPECT_THAT(EvidenceOf(*FindKind(FindVerdict(*timeline_, aggregates_), FindingKind::kRecording)),
              HasSubstr("a step would take about 5.00 ms (give or take 1.00 ms), so that"));
}

TEST_F(RecordingRulesTest, RecordsThatTakeLittleAreNotTold) {
  maker_.info().cost.system = {.call = 200, .fault = 1'000, .fault_beside = 0};
  MakeFaults();
  const Verdict verdict = Why();
  EXPECT_FALSE(FindKind(verdict, FindingKind::kRecording).has_value());
}

TEST_F(RecordingRulesTest, HitsOfProbesArePartOfTheOthers) {
  MakeSteps([](int, int64_t, int64_t) {});
  maker_.info().has_end = true;
  maker_.info().cost.probe_hits = 1'000;
  maker_.info().cost.probe_ns_per_hit = 50'000;
  const auto finding = FindKind(Why(), FindingKind::kRecording);
  ASSERT_TRUE(finding.has_value());
  EXPECT_TRUE(finding->is_part_of_others());
}

}  // namespace
}  // namespace proftrace
