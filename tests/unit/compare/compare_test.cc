// Two recordings beside each other: hand-made timelines of which the difference is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exporters/sinks/output_file.h"
#include "exporters/text/compare_text.h"
#include "tests/support/timeline_maker.h"
#include "userspace/compare/run_comparison.h"
#include "userspace/compare/run_profile.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kUs = 1000;
constexpr int64_t kStepNs = 10'000 * kUs;
constexpr int kSteps = 20;

// A job whose steps the job annotates itself, of 10 ms and what is added to them.
class Job {
 public:
  Job() {
    maker_.info().targets.push_back({.pid = Pid{7}, .torch_version = "2.11.0"});
    maker_.info().host.name = "node1";
  }

  // aten::mm of `mm_us`, aten::add of 1 ms; every second step takes `jitter_us` more of Python.
  void AddSteps(int steps, int64_t mm_us, int64_t jitter_us, const std::string& extra = "") {
    for (int step = 0; step < steps; ++step) {
      const int64_t begin_ns = now_ns_;
      maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), begin_ns);
      maker_.Add(thread_, mm_, begin_ns, begin_ns + mm_us * kUs);
      int64_t at_ns = begin_ns + mm_us * kUs;
      maker_.Add(thread_, add_, at_ns, at_ns + 1000 * kUs);
      at_ns += 1000 * kUs;
      if (!extra.empty()) {
        maker_.Add(thread_, maker_.AddOperator(extra), at_ns, at_ns + 700 * kUs);
        at_ns += 700 * kUs;
      }
      at_ns += 2000 * kUs + (step % 2 == 0 ? 0 : jitter_us * kUs);
      maker_.End(thread_, at_ns);
      now_ns_ = at_ns;
    }
  }
  // Without a step.
  void AddOperators(int count, int64_t us) {
    for (int i = 0; i < count; ++i, now_ns_ += kStepNs) {
      maker_.Add(thread_, mm_, now_ns_, now_ns_ + us * kUs);
    }
  }

  std::optional<RunProfile> Profile() {
    maker_.info().window = {.start_ns = 0, .duration_ns = now_ns_};
    timeline_ = maker_.Finish();
    aggregates_ = Aggregate(*timeline_, {});
    return ProfileRun(*timeline_, aggregates_);
  }

 private:
  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(7, 7, "main");
  LabelId mm_ = maker_.AddOperator("aten::mm");
  LabelId add_ = maker_.AddOperator("aten::add");
  int64_t now_ns_ = kStepNs;
  std::unique_ptr<Timeline> timeline_;
  Aggregates aggregates_;
};

RunProfile ProfileOf(int64_t mm_us, int64_t jitter_us, const std::string& extra = "") {
  Job run;
  run.AddSteps(kSteps, mm_us, jitter_us, extra);
  return *run.Profile();
}

std::vector<std::string> NamesOf(const std::vector<Change>& changes) {
  std::vector<std::string> names;
  for (const Change& change : changes) names.push_back(change.name);
  return names;
}

TEST(CompareTest, TellsTheStepItsPartsAndTheOperator) {
  const RunComparison comparison = CompareRuns(ProfileOf(3000, 0), ProfileOf(4500, 0));
  EXPECT_TRUE(comparison.by_step);
  EXPECT_EQ(comparison.steps_before, 20u);
  EXPECT_DOUBLE_EQ(comparison.whole.before_ms, 6.0);
  EXPECT_DOUBLE_EQ(comparison.whole.after_ms, 7.5);
  EXPECT_TRUE(comparison.whole.is_real());
  EXPECT_THAT(NamesOf(comparison.operators), ElementsAre("aten::mm"));
  EXPECT_DOUBLE_EQ(comparison.operators[0].ms(), 1.5);
  EXPECT_DOUBLE_EQ(comparison.operators[0].calls_before, 1);
  double before_ms = 0;
  double after_ms = 0;
  for (const Change& part : comparison.parts) {
    before_ms += part.before_ms;
    after_ms += part.after_ms;
    EXPECT_EQ(part.is_real(), part.name == "operators") << part.name;
  }
  EXPECT_NEAR(before_ms, 6.0, 1e-9);
  EXPECT_NEAR(after_ms, 7.5, 1e-9);
}

// The steps in which the recording itself started are left out, also where operators are summed.
TEST(CompareTest, TellsOperatorsOfLongRecordings) {
  const auto profile_of = [](int64_t mm_us) {
    Job run;
    run.AddSteps(600, mm_us, 0);
    return *run.Profile();
  };
  const RunProfile before = profile_of(3000);
  EXPECT_LT(before.steps, 600u);
  EXPECT_GT(before.steps, 450u);
  const RunComparison comparison = CompareRuns(before, profile_of(4500));
  EXPECT_THAT(NamesOf(comparison.operators), ElementsAre("aten::mm"));
  EXPECT_DOUBLE_EQ(comparison.operators[0].before_ms, 3.0);
  EXPECT_DOUBLE_EQ(comparison.operators[0].after_ms, 4.5);
  EXPECT_DOUBLE_EQ(comparison.operators[0].calls_before, 1);
}

TEST(CompareTest, IsTheSameWithTheOtherSignTheOtherWayRound) {
  const RunProfile a = ProfileOf(3000, 200);
  const RunProfile b = ProfileOf(2000, 300, "aten::relu");
  const RunComparison forth = CompareRuns(a, b);
  const RunComparison back = CompareRuns(b, a);
  EXPECT_EQ(NamesOf(forth.operators), NamesOf(back.operators));
  for (size_t i = 0; i < forth.operators.size(); ++i) {
    EXPECT_DOUBLE_EQ(forth.operators[i].ms(), -back.operators[i].ms());
    EXPECT_DOUBLE_EQ(*forth.operators[i].noise_ms, *back.operators[i].noise_ms);
  }
}

// The noise is four standard errors, by ten stretches of two steps each; here one stretch has a
// step that takes 5 ms more.
TEST(CompareTest, WeighsTheChangeByWhatStepsVaryAnyway) {
  Job run;
  run.AddSteps(10, 3000, 0);
  run.AddSteps(1, 8000, 0);
  run.AddSteps(9, 3000, 0);
  const RunProfile uneven = *run.Profile();
  const double error_ns = 2.5e6 * std::sqrt(0.9 / 9 / 10);  // sqrt(sum((x - mean)^2) / 9 / 10)
  ASSERT_TRUE(uneven.step.error_ns.has_value());
  EXPECT_NEAR(*uneven.step.error_ns, error_ns, 1);
  const RunComparison comparison = CompareRuns(ProfileOf(3000, 0), uneven);
  EXPECT_NEAR(comparison.whole.ms(), 0.25, 1e-9);
  EXPECT_NEAR(*comparison.whole.noise_ms, 4 * error_ns * 1e-6, 1e-6);
  EXPECT_FALSE(comparison.whole.is_real());
  EXPECT_THAT(comparison.operators, IsEmpty());
  EXPECT_THAT(FormatComparison(comparison, 10), HasSubstr("no difference that is more than"));
}

TEST(CompareTest, NamesWhatIsInOneAlone) {
  const RunComparison comparison =
      CompareRuns(ProfileOf(3000, 0), ProfileOf(3000, 0, "aten::\x1b[31mre\nlu"));
  ASSERT_EQ(comparison.operators.size(), 1u);
  EXPECT_DOUBLE_EQ(comparison.operators[0].before_ms, 0);
  EXPECT_DOUBLE_EQ(comparison.operators[0].after_ms, 0.7);
  const std::string text = FormatComparison(comparison, 10);
  EXPECT_THAT(text, HasSubstr("aten::\\x1b[31mre\\nlu"));
  EXPECT_THAT(text, HasSubstr("0 > 1"));
}

TEST(CompareTest, FewStepsHaveNoNoiseThatIsKnown) {
  Job few;
  few.AddSteps(3, 3100, 0);
  const RunComparison comparison = CompareRuns(ProfileOf(3000, 0), *few.Profile());
  EXPECT_FALSE(comparison.whole.noise_ms.has_value());
  EXPECT_FALSE(comparison.whole.is_real()) << "less than a twentieth";
  EXPECT_THAT(comparison.remarks, ElementsAre(HasSubstr("too few steps")));
  EXPECT_THAT(FormatComparison(comparison, 10), HasSubstr("?"));
}

TEST(CompareTest, WithoutStepsItIsBySecond) {
  Job run;
  run.AddOperators(2, 4000);
  const std::optional<RunProfile> profile = run.Profile();
  ASSERT_TRUE(profile.has_value());
  ASSERT_FALSE(profile->are_steps);
  const RunComparison comparison = CompareRuns(ProfileOf(3000, 0), *profile);
  EXPECT_FALSE(comparison.by_step);
  EXPECT_THAT(comparison.findings, IsEmpty());
  ASSERT_FALSE(comparison.operators.empty());
  const auto mm = std::find_if(comparison.operators.begin(), comparison.operators.end(),
                               [](const Change& change) { return change.name == "aten::mm"; });
  ASSERT_NE(mm, comparison.operators.end());
  // 2 calls of 4 ms in 30 ms; 20 of 3 ms in 130 ms.
  EXPECT_NEAR(mm->after_ms, 8 / 0.03, 1e-6);
  EXPECT_NEAR(mm->before_ms, 60 / 0.13, 1e-6);
  EXPECT_NEAR(mm->calls_after, 2 / 0.03, 1e-6);
  EXPECT_THAT(comparison.remarks[0], HasSubstr("one of the recordings alone"));
}

TEST(CompareTest, SaysWhatElseIsDifferent) {
  const RunProfile before = ProfileOf(3000, 0);
  RunProfile after = before;
  EXPECT_THAT(CompareRuns(before, after).remarks, IsEmpty());
  after.tier = "patch";
  after.host = "node2";
  after.torch_version = "2.12.0";
  after.overhead_percent = 40;
  after.has_loss = true;
  EXPECT_THAT(CompareRuns(before, after).remarks,
              ElementsAre(HasSubstr("different ways"), HasSubstr("about 40 % now"),
                          HasSubstr("node2 now"), HasSubstr("2.12.0 now"), HasSubstr("lost")));
}

// What is too small a part of longer steps to be told is not gone.
TEST(CompareTest, ACauseIsGoneOnlyIfItsTimeIs) {
  const RunProfile before = ProfileOf(3000, 0);
  RunProfile after = before;
  std::erase_if(after.verdict.findings,
                [](const Finding& finding) { return finding.part == StepPart::kOperators; });
  ASSERT_LT(after.verdict.findings.size(), before.verdict.findings.size());
  EXPECT_THAT(CompareRuns(before, after).findings, IsEmpty());
  EXPECT_THAT(CompareRuns(after, before).findings, IsEmpty());
  after.parts[static_cast<size_t>(StepPart::kOperators)].mean_ns = 0;
  EXPECT_EQ(CompareRuns(before, after).findings.size(), 1u);
}

// Steps that take as long on average as they did are told so, and nothing else of their lengths.
TEST(CompareTest, UnevenStepsHaveChangedOnlyIfTheStepHas) {
  const auto with_uneven = [](int64_t mm_us, double share) {
    RunProfile run = ProfileOf(mm_us, 4000);
    Finding uneven;
    uneven.kind = FindingKind::kUnevenSteps;
    uneven.what = "some steps take longer";
    uneven.ns = static_cast<int64_t>(share * static_cast<double>(run.verdict.total_ns));
    run.verdict.findings.push_back(uneven);
    return run;
  };
  const RunProfile before = with_uneven(3000, 0.1);
  EXPECT_THAT(CompareRuns(before, with_uneven(3000, 0.4)).findings, IsEmpty());
  const std::vector<FindingChange> longer = CompareRuns(before, with_uneven(60'000, 0.4)).findings;
  EXPECT_TRUE(std::any_of(longer.begin(), longer.end(), [](const FindingChange& change) {
    return change.finding.kind == FindingKind::kUnevenSteps &&
           change.kind == FindingChange::Kind::kMore;
  }));
}

TEST(CompareTest, SaysThatTheProgramsAreNotTheSame) {
  const RunProfile before = ProfileOf(3000, 0);
  RunProfile after = before;
  after.command = "python other.py";
  EXPECT_THAT(CompareRuns(before, after).remarks, ElementsAre(HasSubstr("python other.py now")));
}

// Six operators that all take 1.3 times as long, and one of them that takes twice.
TEST(CompareTest, NamesAFactorThatAllOperatorsHaveInCommon) {
  const auto make = [](double factor, double of_one) {
    RunProfile profile = ProfileOf(100, 0);
    profile.operators.clear();
    for (int i = 0; i < 7; ++i) {
      const double ns = 1e6 * (i == 3 ? of_one : factor);
      profile.operators.push_back({std::string(1, static_cast<char>('a' + i)), {ns, 0.0}, 1});
    }
    return profile;
  };
  EXPECT_NEAR(CompareRuns(make(1, 1), make(1.3, 2)).common_factor.value_or(0), 1.3, 1e-9);
  EXPECT_FALSE(CompareRuns(make(1, 1), make(1, 2)).common_factor.has_value());
  EXPECT_FALSE(CompareRuns(make(1, 1), make(1.02, 1.02)).common_factor.has_value());
}

// Seven operators that are called so many times a step.
TEST(CompareTest, TellsThatAStepHasMoreBatches) {
  const auto make = [](double calls, double of_one) {
    RunProfile profile = ProfileOf(100, 0);
    profile.operators.clear();
    for (int i = 0; i < 7; ++i) {
      const double count = i == 3 ? of_one : calls;
      profile.operators.push_back(
          {std::string(1, static_cast<char>('a' + i)), {1e6 * count, 0.0}, count});
    }
    return profile;
  };
  const auto remarks = [&](double calls, double of_one) {
    std::string all;
    for (const std::string& remark : CompareRuns(make(1, 1), make(calls, of_one)).remarks) {
      all += remark;
    }
    return all;
  };
  EXPECT_THAT(remarks(4, 1), HasSubstr("operators are called 4.00 times as often a step"));
  EXPECT_THAT(remarks(1, 4), Not(HasSubstr("times as often")));
}

// Larger inputs make operators take longer, a slower processor makes Python take longer as well.
TEST(CompareTest, TellsInputsOfAnotherSizeFromASlowerProcessor) {
  const auto remark = [](double of_operators, double of_python, bool has_waits = true) {
    const auto make = [has_waits](double operators, double python) {
      RunProfile profile = ProfileOf(100, 0);
      profile.has_waits = has_waits;
      profile.operators.clear();
      for (int i = 0; i < 7; ++i) {
        profile.operators.push_back(
            {std::string(1, static_cast<char>('a' + i)), {1e6 * operators, 0.0}, 1});
      }
      profile.parts[static_cast<size_t>(StepPart::kPython)] = {1e6 * python, 0.0};
      return profile;
    };
    return CompareRuns(make(1, 1), make(of_operators, of_python)).remarks.front();
  };
  EXPECT_THAT(remark(2, 1.01), HasSubstr("that is inputs of another size"));
  EXPECT_THAT(remark(2, 2.02), HasSubstr("so does Python outside of them: that is a processor"));
  EXPECT_THAT(remark(2, 1.4), HasSubstr("inputs of another size or type (a batch, float16), or a"));
  // Without waits, what counts as Python may be sleeps.
  EXPECT_THAT(remark(2, 1.01, false), HasSubstr("or a processor that is slower or faster"));
}

// One operator most of all, and several: that is one cause, which takes less time now.
TEST(CompareTest, AnotherKindAboutTheSamePartIsTheSameCause) {
  const auto make = [](double ns, FindingKind kind) {
    RunProfile run = ProfileOf(ns, 0);
    run.parts[static_cast<size_t>(StepPart::kOperators)] = {ns, 0.0};
    run.verdict = {};
    run.verdict.steps = 1;
    run.verdict.total_ns = static_cast<int64_t>(ns);
    Finding finding;
    finding.kind = kind;
    finding.part = StepPart::kOperators;
    finding.ns = static_cast<int64_t>(ns);
    run.verdict.findings = {finding};
    return run;
  };
  const std::vector<FindingChange> changes =
      CompareRuns(make(4e6, FindingKind::kOperators), make(2e6, FindingKind::kOneOperator))
          .findings;
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, FindingChange::Kind::kLess);
  EXPECT_EQ(changes[0].finding.kind, FindingKind::kOneOperator);
}

// One recording has no waits: they are in the time of its other parts.
TEST(CompareTest, WhatOneRecordingCannotKnowIsNoChange) {
  const auto make = [](bool has_waits) {
    RunProfile run = ProfileOf(3000, 0);
    run.has_waits = has_waits;
    const auto part = [&](StepPart which) -> StepTime& {
      return run.parts[static_cast<size_t>(which)];
    };
    part(StepPart::kRunQueue) = {has_waits ? 1e6 : 0.0, 0.0};
    part(StepPart::kPython) = {has_waits ? 1e6 : 2e6, 0.0};
    if (has_waits) {
      Finding finding;
      finding.kind = FindingKind::kRunQueue;
      finding.part = StepPart::kRunQueue;
      finding.ns = 1'000'000;
      run.verdict.findings = {finding};
      run.verdict.steps = 1;
      run.verdict.total_ns = 3'000'000;
    }
    return run;
  };
  const RunComparison comparison = CompareRuns(make(true), make(false));
  EXPECT_THAT(comparison.findings, IsEmpty());
  ASSERT_FALSE(comparison.parts.empty());
  EXPECT_EQ(comparison.parts.front().name, kUnknownParts);
  EXPECT_NEAR(comparison.parts.front().ms(), 0, 1e-9);
  EXPECT_THAT(comparison.remarks.front(), HasSubstr("record both with the same --activities"));
}

// A cause that is too small for the second verdict is not gone. `step_ns`: the length of a step.
RunProfile RunThatWantsCpu(double run_queue_ns, bool is_told, double step_ns = 6'000'000) {
  RunProfile run = ProfileOf(3000, 0);
  run.step = {step_ns, 0.0};
  run.parts[static_cast<size_t>(StepPart::kRunQueue)] = {run_queue_ns, 0.0};
  run.verdict = {};
  run.verdict.steps = 1;
  run.verdict.total_ns = 3'000'000;
  Finding finding;
  finding.kind = FindingKind::kRunQueue;
  finding.part = StepPart::kRunQueue;
  finding.ns = static_cast<int64_t>(run_queue_ns);
  if (is_told) run.verdict.findings = {finding};
  return run;
}

TEST(CompareTest, ACauseThatIsNoLongerToldIsLess) {
  const auto& make = RunThatWantsCpu;
  const auto changes = CompareRuns(make(200'000, true, 6e6), make(90'000, false, 6e6)).findings;
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, FindingChange::Kind::kLess);
  EXPECT_NEAR(changes[0].after_ms, 0.09, 1e-9);
  const auto gone = CompareRuns(make(200'000, true, 6e6), make(900, false, 6e6)).findings;
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].kind, FindingChange::Kind::kGone);
}

TEST(CompareTest, CausesThatChangedMostComeFirst) {
  RunProfile before = ProfileOf(3000, 0);
  RunProfile after = before;
  const auto add = [](double ns, StepPart part, RunProfile* run) {
    run->parts[static_cast<size_t>(part)] = {ns, 0.0};
    Finding finding;
    finding.part = part;
    finding.ns = static_cast<int64_t>(ns);
    run->verdict.findings.push_back(finding);
  };
  for (RunProfile* run : {&before, &after}) {
    run->verdict = {};
    run->verdict.steps = 1;
    run->verdict.total_ns = 6'000'000;
  }
  add(800'000, StepPart::kPython, &before);
  add(1'000'000, StepPart::kPython, &after);
  add(400'000, StepPart::kIo, &after);
  const auto changes = CompareRuns(before, after).findings;
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].finding.part, StepPart::kIo);
}

// What is too small a part of a far longer step to be told can be more than before.
TEST(CompareTest, OfALongerStepWhatIsNotToldCanBeMore) {
  const auto changes =
      CompareRuns(RunThatWantsCpu(200'000, true, 6e6), RunThatWantsCpu(900'000, false, 2e8))
          .findings;
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, FindingChange::Kind::kMore);
  const auto back =
      CompareRuns(RunThatWantsCpu(900'000, false, 2e8), RunThatWantsCpu(200'000, true, 6e6))
          .findings;
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].kind, FindingChange::Kind::kLess);
}

// aten::mm takes most before and now, and is as it was.
TEST(CompareTest, OfOperatorsTheOneThatChangedMostIsNamed) {
  const auto changes = CompareRuns(ProfileOf(3000, 0), ProfileOf(3000, 0, "aten::sort")).findings;
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].finding.what, "operators compute, of which aten::sort changed most");
  EXPECT_EQ(changes[0].was, "");
}

TEST(CompareTest, JsonHasTheSame) {
  const RunComparison comparison = CompareRuns(ProfileOf(3000, 0), ProfileOf(4500, 100, "aten::x"));
  StringSink sink;
  ASSERT_TRUE(ExportComparisonJson(comparison, 1, sink).ok());
  const auto json = nlohmann::json::parse(sink.text());
  EXPECT_EQ(json["before"]["steps"], 20);
  EXPECT_NEAR(json["step"]["change_ms"].get<double>(), 2.25, 1e-9);
  ASSERT_EQ(json["operators"].size(), 1u) << "--row-limit 1";
  EXPECT_EQ(json["operators"][0]["name"], "aten::mm");
  EXPECT_TRUE(json["operators"][0]["is_real"].get<bool>());
  EXPECT_TRUE(json["common_factor"].is_null());
  EXPECT_THAT(FormatComparison(comparison, 1), HasSubstr("1 more; --row-limit -1 shows all."));
  EXPECT_THAT(FormatComparison(comparison, -1), Not(HasSubstr("--row-limit")));
}

TEST(CompareTest, NothingIsNoRun) {
  TimelineMaker empty;
  const std::unique_ptr<Timeline> timeline = empty.Finish();
  EXPECT_FALSE(ProfileRun(*timeline, Aggregate(*timeline, {})).has_value());
}

}  // namespace
}  // namespace proftrace
