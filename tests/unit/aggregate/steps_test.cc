#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/tables/csv.h"
#include "exporters/traces/chrome_trace.h"
#include "tests/support/step_job.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/steps/step_finder.h"

namespace proftrace {
namespace {

TEST(StepFinderTest, PlainLoop) {
  Job job;
  for (int step = 0; step < 20; ++step) {
    job.BeginStep();
    job.Update(1, 8);
  }
  ExpectTruth(job);
}

// Forty steps; after every tenth of them, `log`.
template <typename Log>
Job JobThatLogs(Log&& log) {
  Job job;
  for (int step = 0; step < 40; ++step) {
    job.BeginStep();
    job.Update(1, 8);
    if (step % 10 == 9) log(job, step);
  }
  return job;
}

TEST(StepFinderTest, LoggingEveryTenthStepBelongsToIt) {
  Job job = JobThatLogs([](Job& job, int) {
    job.Call(50, ItemClass::kReduce);
    job.Call(51, ItemClass::kRead);
  });
  ExpectTruth(job);
}

// More rounds than are compared with each other: those that are must not all be logging ones.
TEST(StepFinderTest, LoggingOfManyRoundsBelongsToThemWhereverItBegins) {
  for (int rounds = 1190; rounds <= 1250; rounds += 20) {
    for (int first = 0; first < 10; first += 3) {
      Job job;
      for (int step = 0; step < rounds; ++step) {
        job.BeginStep();
        job.Update(1, 8);
        if (step % 10 == first) {
          job.Call(50, ItemClass::kReduce, 20'000);
          job.Call(51, ItemClass::kRead, 20'000);
        }
      }
      const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
      EXPECT_EQ(finder.steps().size(), job.starts().size())
          << rounds << " rounds, " << first << ": " << finder.rule().how;
    }
  }
}

TEST(StepFinderTest, LoggingAfterTheFirstStepBelongsToItWhereTheRecordingBeganInTheOneBefore) {
  Job job;
  job.Calls(700, 4);  // of an optimizer's step that had begun before
  for (int step = 9; step < 50; ++step) {
    job.BeginStep();
    job.Update(1, 8);
    if (step % 10 == 9) {
      job.Call(50, ItemClass::kReduce);
      job.Call(51, ItemClass::kRead);
    }
  }
  StepFinder finder(1u << 19, job.items().front().start_ns - 1'000);
  for (const StepItem& item : job.items()) finder.Add(item);
  finder.Look(job.now_ns() + 1'000'000'000);
  EXPECT_EQ(StartsOf(finder), job.starts());
}

TEST(StepFinderTest, ADisturbedRoundBesideALoggingOneChangesNothing) {
  Job job;
  for (int step = 0; step < 40; ++step) {
    job.BeginStep();
    job.Update(1, 8);
    if (step % 10 == 9) {
      job.Call(50, ItemClass::kReduce);
      job.Call(51, ItemClass::kRead);
    }
    if (step % 10 == 0) job.Pause(400'000);  // another process had the core
  }
  ExpectTruth(job);
}

TEST(StepFinderTest, LoggingThatIsHeldUpIsNoPhaseOfItsOwn) {
  Job job = JobThatLogs([](Job& job, int step) {
    job.Call(50, ItemClass::kReduce);
    if (step == 19) job.Pause(400'000);  // longer than a step
    job.Call(51, ItemClass::kRead);
  });
  ExpectTruth(job);
  const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
  EXPECT_EQ(finder.steps()[19].end_ns, job.starts()[20]);
}

TEST(StepFinderTest, ACallThatIsHeldUpMakesLoggingNoPhaseOfItsOwn) {
  Job job = JobThatLogs([](Job& job, int step) {
    job.Call(50, ItemClass::kReduce, step == 19 ? 400'000 : 5'000);  // longer than a step
    job.Call(51, ItemClass::kRead);
  });
  ExpectTruth(job);
  const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
  EXPECT_EQ(finder.steps()[19].end_ns, job.starts()[20]);
}

TEST(StepFinderTest, WhatPausesAloneTellIsSaidToBeAGuess) {
  Job job;
  for (int step = 0; step < 40; ++step) {
    job.BeginStep();
    job.Update(1, 8);
    if (step == 20) job.Pause(2'000'000);
  }
  const std::vector<StepItem> cut(job.items().begin() + 18, job.items().end() - 5);
  for (const int64_t before_ns : {100, 3'000'000}) {
    StepFinder finder(1u << 19, cut.front().start_ns - before_ns);
    for (const StepItem& item : cut) finder.Add(item);
    finder.Look(cut.back().end_ns);
    EXPECT_NE(finder.rule().how.find("guess"), std::string::npos) << before_ns;
    EXPECT_LT(finder.confidence(), 0.9);
  }
  // From its first round on it is known.
  const StepFinder whole = Find(job.items(), job.now_ns() + 1'000'000'000);
  EXPECT_EQ(whole.rule().how.find("guess"), std::string::npos);
  EXPECT_GT(whole.confidence(), 0.9);
}

TEST(StepFinderTest, AccumulatedGradientsAreOneStep) {
  Job job;
  for (int step = 0; step < 12; ++step) {
    job.BeginStep();
    job.ZeroGrad();
    for (int part = 0; part < 4; ++part) {
      job.Calls(1, 8);
      job.Backward(8);
    }
    job.Optimize();
  }
  ExpectTruth(job);
}

TEST(StepFinderTest, TwoOptimizersOfOneNameTakeTurns) {
  for (const int critics : {1, 2, 5}) {
    Job job;
    for (int step = 0; step < 12; ++step) {
      job.BeginStep();
      for (int i = 0; i < critics; ++i) job.Update(1, 9);
      job.Update(5, 14);
    }
    ExpectTruth(job);
    EXPECT_EQ(Find(job.items(), job.now_ns()).rule().period, static_cast<uint32_t>(critics + 1));
  }
}

TEST(StepFinderTest, WhichUpdateBeginsARoundIsAGuessWherePausesDoNotTell) {
  Job job;
  for (int step = 0; step < 12; ++step) {
    job.BeginStep();
    for (int i = 0; i < 5; ++i) {
      job.Update(1, 9);
      job.Pause(4'000);  // a busy machine: as long as that of the loop
    }
    job.Update(5, 14);
  }
  // From its first round on it is known.
  ExpectTruth(job);
  EXPECT_GT(Find(job.items(), job.now_ns()).confidence(), 0.9);
  const std::vector<StepItem> cut(job.items().begin() + 33, job.items().end() - 5);
  StepFinder finder(1u << 19, cut.front().start_ns - 100);
  for (const StepItem& item : cut) finder.Add(item);
  finder.Look(cut.back().end_ns);
  EXPECT_NE(finder.rule().how.find("guess"), std::string::npos);
  EXPECT_LT(finder.confidence(), 0.5);
}

// A guess, and what else the steps may be.
void ExpectDoubt(const Job& job, std::string_view doubt) {
  Job copy = job;
  const StepFinder finder = Find(copy.items(), copy.now_ns() + 1'000'000'000);
  EXPECT_LT(finder.confidence(), kGuessBelow) << finder.rule().how;
  EXPECT_NE(finder.rule().how.find(doubt), std::string::npos) << finder.rule().how;
}

TEST(StepFinderTest, BatchesOrRoundsOfSeveralIsAGuess) {
  Job job;
  for (int step = 0; step < 12; ++step) {
    job.BeginStep();
    job.Call(700, ItemClass::kLoaderNext);
    job.Update(1, 9);
    if (step % 3 == 2) job.Update(5, 14);
  }
  ExpectDoubt(job, "each batch may be a step");
}

TEST(StepFinderTest, AnUpdateMoreForOneBatchIsAGuess) {
  Job job;
  for (int step = 0; step < 6; ++step) {
    job.BeginStep();
    job.Call(700, ItemClass::kLoaderNext);
    job.Update(1, 9);
    if (step == 3) job.Update(5, 14);
  }
  ExpectDoubt(job, "each batch may be a step");
}

TEST(StepFinderTest, SeveralUpdatesOfEachBatchAreOneStep) {
  Job job;
  for (int step = 0; step < 12; ++step) {
    job.BeginStep();
    job.Call(700, ItemClass::kLoaderNext);
    for (int update = 0; update < 4; ++update) job.Update(1, 60);
  }
  ExpectTruth(job);
}

TEST(StepFinderTest, GradientsThatAreThrownAwayNowAndThenMakeItAGuess) {
  Job job;
  for (int step = 0; step < 30; ++step) {
    job.BeginStep();
    job.ZeroGrad();
    job.Calls(1, 8);
    job.Backward(8);
    if (step % 11 != 5) job.Optimize();
  }
  ExpectDoubt(job, "not all of which updated");
}

TEST(StepFinderTest, OptimizersOfManyNamesInFewRoundsAreAGuess) {
  Job job;
  for (uint32_t optimizer = 0; optimizer < 7; ++optimizer) {
    job.BeginStep();
    job.ZeroGrad();
    job.Calls(1, 8);
    job.Backward(8);
    job.Call(810 + optimizer, ItemClass::kOptimizerStep);
  }
  ExpectDoubt(job, "several optimizers");
}

TEST(StepFinderTest, OneOptimizerThatTakesOverFromAnotherIsNoDoubt) {
  Job job;
  for (uint32_t step = 0; step < 30; ++step) {
    job.BeginStep();
    job.ZeroGrad();
    job.Calls(1, 8);
    job.Backward(8);
    job.Call(810 + step / 15, ItemClass::kOptimizerStep);
  }
  ExpectTruth(job);
}

TEST(StepFinderTest, WhatComesBeforeALoopIsNoRoundOfIt) {
  Job job;
  for (int layer = 0; layer < 6; ++layer) job.Calls(50, 5);  // a model is made
  for (int step = 0; step < 20; ++step) {
    job.BeginStep();
    job.Calls(1, 20);
  }
  ExpectTruth(job, 0.5);
}

TEST(StepFinderTest, TokensOfAnswersWithPromptsAreAGuess) {
  std::mt19937 random(3);
  Job job;
  for (int step = 0; step < 12; ++step) {
    job.BeginStep();
    job.Call(600, ItemClass::kSource);
    for (uint32_t token = 2 + random() % 40; token > 0; --token) job.Calls(1, 12);
  }
  const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
  if (finder.count() != job.starts().size()) EXPECT_LT(finder.confidence(), kGuessBelow);
}

TEST(StepFinderTest, RolloutsLeadTheUpdatesThatLearnFromThem) {
  std::mt19937 random(3);
  Job job;
  for (int step = 0; step < 12; ++step) {
    job.BeginStep();
    for (uint32_t act = 20 + random() % 30; act > 0; --act) {
      job.Calls(100, 4);
      job.Call(110, ItemClass::kSample);
    }
    for (int update = 0; update < 5; ++update) job.Update(1, 8);
  }
  ExpectTruth(job, 0.6);
}

TEST(StepFinderTest, AnEvaluationPhaseIsNoStepAndInNone) {
  Job job;
  int64_t evaluation_begin_ns = 0;
  int64_t evaluation_end_ns = 0;
  for (int step = 0; step < 30; ++step) {
    job.BeginStep();
    job.Update(1, 8);
    if (step != 14) continue;
    evaluation_begin_ns = job.now_ns();
    for (int batch = 0; batch < 20; ++batch) {
      job.Calls(1, 8);
      job.Call(51, ItemClass::kRead);
    }
    evaluation_end_ns = job.now_ns();
  }
  ExpectTruth(job);
  for (const FoundStep& step : Find(job.items(), job.now_ns()).steps()) {
    EXPECT_TRUE(step.end_ns <= evaluation_begin_ns || step.start_ns >= evaluation_end_ns - 10'000);
  }
}

TEST(StepFinderTest, AnEvaluationAfterEverySecondStepMakesNoRoundOfTwo) {
  Job job;
  for (int step = 0; step < 8; ++step) {
    job.BeginStep();
    job.Update(1, 8);
    if (step % 2 == 1) job.Calls(1, 8);
  }
  EXPECT_EQ(Find(job.items(), job.now_ns() + 1'000'000'000).steps().size(), 8u);
}

TEST(StepFinderTest, BatchesWithoutTraining) {
  Job job;
  for (int step = 0; step < 15; ++step) {
    job.BeginStep();
    job.Call(700, ItemClass::kLoaderNext);
    job.Calls(1, step % 3 == 0 ? 10 : 8);
  }
  ExpectTruth(job);
}

TEST(StepFinderTest, LayersOfAModelAreNoSteps) {
  Job job;
  for (int step = 0; step < 25; ++step) {
    job.BeginStep();
    for (int layer = 0; layer < 12; ++layer) job.Calls(1, 3);
    job.Call(9);
  }
  ExpectTruth(job, 0.5);
}

TEST(StepFinderTest, TheStepsThatTheRecordingCutsAreNotCounted) {
  Job job;
  for (int step = 0; step < 20; ++step) {
    job.BeginStep();
    job.Update(1, 8);
  }
  // From the middle of the third step into the middle of the last one, without a pause before.
  const std::vector<StepItem> cut(job.items().begin() + 2 * 18 + 7, job.items().end() - 5);
  StepFinder finder(1u << 19, cut.front().start_ns - 100);
  for (const StepItem& item : cut) finder.Add(item);
  finder.Look(cut.back().end_ns);
  EXPECT_EQ(StartsOf(finder),
            std::vector<int64_t>(job.starts().begin() + 3, job.starts().end() - 1));
}

TEST(StepFinderTest, ChaosHasNoSureSteps) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Job job;
    for (int i = 0; i < 2000; ++i) {
      job.Call(random() % 50, ItemClass::kOther, 1'000 + random() % 20'000);
    }
    EXPECT_LT(Find(job.items(), job.now_ns()).confidence(), 0.5) << "seed " << seed;
  }
}

TEST(StepFinderTest, RandomLoops) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
    const uint32_t parts = 1 + below(3);  // optimizer steps in a round
    std::vector<uint32_t> sizes;
    for (uint32_t part = 0; part < parts; ++part) sizes.push_back(3 + part * 12 + below(8));
    const uint32_t accumulated = 1 + below(3);
    const uint32_t log_every = below(3) == 0 ? 5 + below(10) : 1'000;
    Job job;
    for (uint32_t step = 0; step < 20 + below(40); ++step) {
      job.BeginStep();
      for (uint32_t part = 0; part < parts; ++part) {
        job.ZeroGrad();
        for (uint32_t i = 0; i < accumulated; ++i) {
          job.Calls(1 + part * 100, sizes[part]);
          job.Backward(sizes[part]);
        }
        job.Optimize();
      }
      if (step % log_every == log_every - 1) job.Call(950, ItemClass::kRead);
      // Noise: the machine was busy.
      if (below(10) == 0) job.Pause(below(30'000));
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    ExpectTruth(job);
  }
}

TEST(StepFinderTest, LongRecordingsInBoundedMemory) {
  Job job;
  StepFinder finder(20'000, kStartNs);
  size_t added = 0;
  for (int step = 0; step < 30'000; ++step) {
    job.BeginStep();
    job.Update(1, 8);
    for (const StepItem& item : job.items()) finder.Add(item);
    added += job.items().size();
    job.items().clear();
    ASSERT_LE(finder.kept_items(), 20'000u);
  }
  finder.Look(job.now_ns() + 1'000'000'000);
  EXPECT_GT(added, 500'000u);
  EXPECT_EQ(StartsOf(finder), job.starts());
}

class StepRowsTest : public testing::Test {
 protected:
  StepRowsTest() {
    const ThreadIndex main = maker_.AddThread(100, 100, "python3");
    const ThreadIndex other = maker_.AddThread(100, 101, "pt_autograd_0");
    const LabelId linear = maker_.AddOperator("aten::linear");
    const LabelId addmm = maker_.AddOperator("aten::addmm");
    const LabelId backward = maker_.AddOperator("aten::mm");
    const LabelId optimizer = maker_.AddAnnotation("Optimizer.step#SGD.step");
    int64_t now_ns = 6'000'000'000;
    for (int step = 0; step < 3; ++step) {
      maker_.Begin(main, linear, now_ns);
      maker_.Add(main, addmm, now_ns + 10, now_ns + 60);
      maker_.End(main, now_ns + 100);
      maker_.Add(other, backward, now_ns + 110, now_ns + 150);
      maker_.Add(main, optimizer, now_ns + 200, now_ns + 300);
      now_ns += 1'000;
    }
    maker_.info().window.duration_ns = 2'000'000'000;
    timeline_ = maker_.Finish();
    aggregates_ = Aggregate(*timeline_, {.step_rows = true});
  }

  std::string Csv() const {
    StringSink sink;
    EXPECT_TRUE(ExportEventsCsv(*timeline_, aggregates_.steps, aggregates_.step_rows, sink).ok());
    return sink.text();
  }

  TimelineMaker maker_;
  std::unique_ptr<Timeline> timeline_;
  Aggregates aggregates_;
};

TEST_F(StepRowsTest, AreParentsOnTheThreadThatDrivesTheLoop) {
  ASSERT_EQ(aggregates_.step_rows.rows().size(), 3u);
  const std::string csv = Csv();
  EXPECT_NE(csv.find("\n0,,0,ProfilerStep#0,ProfilerStep#0,,user_annotation,USER_SCOPE,100,100,"),
            std::string::npos);
  EXPECT_NE(csv.find("\n1,0,1,ProfilerStep#0/aten::linear,aten::linear,"), std::string::npos);
  EXPECT_NE(csv.find("\n2,1,2,ProfilerStep#0/aten::linear/aten::addmm,"), std::string::npos);
  EXPECT_NE(csv.find("\n3,,0,aten::mm,aten::mm,"), std::string::npos);
  EXPECT_NE(csv.find("\n5,,0,ProfilerStep#1,"), std::string::npos);
}

TEST_F(StepRowsTest, GiveOneRowInTheTable) {
  const KeyAverage& row = aggregates_.key_averages.rows.front();
  EXPECT_EQ(row.name, "ProfilerStep*");
  EXPECT_EQ(row.count, 3u);
  EXPECT_TRUE(row.is_user_annotation);
  EXPECT_EQ(row.cpu_time_total_ns, 2 * 1'000 + 300);
  EXPECT_EQ(row.self_cpu_time_total_ns, 2 * 1'000 + 300 - 3 * 200);
  for (const KeyAverage& other : aggregates_.key_averages.rows) {
    EXPECT_EQ(other.is_top_level, other.name == "ProfilerStep*" || other.name == "aten::mm");
  }
}

TEST_F(StepRowsTest, AreInTheTrace) {
  StringSink sink;
  ASSERT_TRUE(ExportChromeTrace(*timeline_, sink, aggregates_.step_rows).ok());
  EXPECT_NE(sink.text().find("\"cat\": \"user_annotation\", \"name\": \"ProfilerStep#2\""),
            std::string::npos);
}

TEST_F(StepRowsTest, AreNotThereUnlessAskedFor) {
  aggregates_ = Aggregate(*timeline_, {});
  EXPECT_TRUE(aggregates_.step_rows.rows().empty());
  EXPECT_EQ(Csv().find("ProfilerStep"), std::string::npos);
  ASSERT_TRUE(aggregates_.steps.main.has_value());
  EXPECT_EQ(aggregates_.steps.processes.front().steps.size(), 3u);
}

TEST(StepsTest, AnnotationsOfTheJobAreItsSteps) {
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(100, 100, "python3");
  for (int step = 5; step < 8; ++step) {
    const LabelId label = maker.AddAnnotation("ProfilerStep#" + std::to_string(step));
    maker.Add(thread, label, 6'000'000'000 + step * 1'000, 6'000'000'900 + step * 1'000);
  }
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const Aggregates aggregates = Aggregate(*timeline, {.step_rows = true});
  ASSERT_EQ(aggregates.steps.processes.size(), 1u);
  const ProcessSteps& process = aggregates.steps.processes.front();
  EXPECT_EQ(process.confidence, 1);
  EXPECT_EQ(process.steps.front().number, 5);
  EXPECT_EQ(process.steps.back().number, 7);
  EXPECT_EQ(process.median_ns, 900);
  EXPECT_TRUE(aggregates.step_rows.rows().empty());  // they are there already
}

// The job names its annotations as it likes.
TEST(StepsTest, NumbersOfStepsDoNotOverflow) {
  TimelineMaker maker;
  maker.info().window.start_ns = 0;
  const ThreadIndex thread = maker.AddThread(100, 100, "");
  maker.info().targets.resize(1);
  maker.info().targets[0].pid = Pid{100};
  const LabelId op = maker.AddOperator("aten::add");
  int64_t ns = 1000;
  for (const char* name :
       {"ProfilerStep#9223372036854775807", "ProfilerStep#x", "ProfilerStep#9223372036854775808"}) {
    maker.Begin(thread, maker.AddAnnotation(name), ns);
    maker.Add(thread, op, ns + 10, ns + 20);
    maker.End(thread, ns + 100);
    ns += 1000;
  }
  const Steps steps = FindSteps(*maker.Finish());
  ASSERT_TRUE(steps.main.has_value());
  for (const Step& step : steps.processes[*steps.main].steps) {
    EXPECT_EQ(step.number, std::numeric_limits<int64_t>::max());
  }
}

}  // namespace
}  // namespace proftrace
