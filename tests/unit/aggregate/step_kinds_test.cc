// Steps of jobs whose loops are of several lengths, on several threads, or over DataLoaders.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/step_job.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/steps.h"
#include "userspace/steps/step_finder.h"

namespace proftrace {
namespace {

// Rounds whose lengths differ by far, of more calls together than are kept at a time.
TEST(StepFinderTest, RolloutsOfVaryingLengthAreAllCountedInBoundedMemory) {
  for (const size_t max_items : {size_t{1} << 13, size_t{1} << 15}) {
    std::mt19937 random(7);
    Job job;
    for (int step = 0; step < 60; ++step) {
      job.BeginStep();
      for (uint32_t act = 20 + random() % 400; act > 0; --act) {
        job.Calls(1, 3);
        job.Call(40, ItemClass::kSample);
        job.Call(41, ItemClass::kRead);
      }
      job.Update(50, 8);
    }
    StepFinder finder(max_items, kStartNs);
    for (const StepItem& item : job.items()) {
      finder.Add(item);
      ASSERT_LT(finder.kept_items(), max_items);
    }
    finder.Look(job.now_ns() + 1'000'000'000);
    EXPECT_EQ(StartsOf(finder), job.starts()) << max_items << ": " << finder.rule().how;
  }
}

// Steps that end with a pause: that of the last one is known when the next step begins, or when
// nothing comes for longer than any pause.
TEST(StepFinderTest, AStepWhosePauseIsNotOverIsCut) {
  constexpr int64_t kPauseNs = 20'000'000;
  Job job;
  for (int step = 0; step < 20; ++step) {
    job.BeginStep();
    job.Update(1, 8);
    job.Pause(kPauseNs);
  }
  const StepFinder cut = Find(job.items(), job.now_ns() - kPauseNs / 2);
  EXPECT_EQ(StartsOf(cut), job.starts()) << cut.rule().how;
  for (const FoundStep& step : cut.steps()) {
    EXPECT_EQ(step.is_cut, step.start_ns == job.starts().back());
    EXPECT_EQ(step.is_cut, step.end_ns - step.start_ns < kPauseNs);
  }
  EXPECT_FALSE(Find(job.items(), job.now_ns() + 1'000'000'000).steps().back().is_cut);

  Job goes_on = job;
  goes_on.BeginStep();
  goes_on.ZeroGrad();
  const StepFinder known = Find(goes_on.items(), goes_on.now_ns());
  EXPECT_EQ(StartsOf(known), job.starts());
  EXPECT_FALSE(known.steps().back().is_cut);
  EXPECT_GT(known.steps().back().end_ns - known.steps().back().start_ns, kPauseNs);
}

// Policies that take the best action, four updates for each rollout; `before_fetch`: a call between
// the choice and the fetch, as an accuracy has.
Job JobOfChoices(int before_fetch, bool has_loader) {
  std::mt19937 random(11);
  Job job;
  for (int step = 0; step < 40; ++step) {
    job.BeginStep();
    for (uint32_t act = 20 + random() % 30; act > 0; --act) {
      job.Calls(100, 4);
      job.Call(110, ItemClass::kChoice);
      if (before_fetch > 0) job.Calls(120, static_cast<uint32_t>(before_fetch));
      job.Call(111, ItemClass::kRead);
    }
    for (int update = 0; update < 4; ++update) {
      if (has_loader) job.Call(130, ItemClass::kLoaderNext);
      job.Update(1, 8);
    }
  }
  return job;
}

TEST(StepFinderTest, RolloutsOfPoliciesThatTakeTheBestActionAreStepsAndAGuess) {
  const Job job = JobOfChoices(/*before_fetch=*/0, /*has_loader=*/false);
  Job known = job;
  const StepFinder finder = Find(known.items(), job.now_ns() + 1'000'000'000);
  EXPECT_EQ(StartsOf(finder), job.starts()) << finder.rule().how;
  EXPECT_LT(finder.confidence(), kGuessBelow);
  EXPECT_NE(finder.rule().how.find("each update may be a step"), std::string::npos);
}

TEST(StepFinderTest, AccuraciesAndLooksAtWhatIsLearnedFromALoaderAreNoRollouts) {
  for (const auto& [before_fetch, has_loader] : {std::pair{2, false}, {0, true}}) {
    Job job = JobOfChoices(before_fetch, has_loader);
    const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
    EXPECT_EQ(finder.rule().how.find("rollout"), std::string::npos) << finder.rule().how;
  }
}

// Updates by hand-made batches; now and then an evaluation, whose loss is fetched right behind the
// best classes. `is_behind`: that is done with what was learned from, behind the update.
Job JobOfLooksAtLosses(bool is_behind) {
  Job job;
  for (int step = 0; step < 40; ++step) {
    job.BeginStep();
    job.Update(1, 8);
    if (step % 4 != 0) continue;
    for (int batch = 0; batch < (is_behind ? 1 : 6); ++batch) {
      if (!is_behind) {
        job.Calls(1, 8);
        job.Call(20, ItemClass::kLoss);
      }
      job.Call(110, ItemClass::kChoice, 30'000);
      job.Call(111, ItemClass::kRead);
    }
  }
  return job;
}

TEST(StepFinderTest, ALossThatIsFetchedBehindAChoiceMakesNoAction) {
  for (const bool is_behind : {false, true}) {
    Job job = JobOfLooksAtLosses(is_behind);
    ExpectTruth(job);
  }
}

// A recurrent network: `lengths` of the sequences take turns. `in_one`: the forward pass is one
// operator.
Job JobOfSequences(const std::vector<uint32_t>& lengths, bool in_one) {
  Job job;
  for (int step = 0; step < 60; ++step) {
    const uint32_t length = lengths[static_cast<size_t>(step) % lengths.size()];
    job.BeginStep();
    job.ZeroGrad();
    job.Calls(10, 4);
    for (uint32_t i = 0; i < (in_one ? 1 : length); ++i) job.Calls(1, 6);
    job.Call(20, ItemClass::kLoss);
    for (uint32_t i = 0; i < length; ++i) job.Backward(6);
    for (int i = 0; i < 4; ++i) job.Call(891, ItemClass::kAccumulate);
    job.Calls(40, 12);
    job.Optimize();
  }
  return job;
}

TEST(StepFinderTest, SequencesWhoseLengthsTakeTurnsAreAStepEach) {
  for (const std::vector<uint32_t>& lengths :
       {std::vector<uint32_t>{20, 120}, {60, 100}, {20, 50, 80}, {3, 12}}) {
    for (const bool in_one : {false, true}) {
      if (in_one && lengths.front() == 60) continue;  // as two networks that take turns
      Job job = JobOfSequences(lengths, in_one);
      ExpectTruth(job);
    }
  }
}

// Two networks of the same calls. The second one's turn goes through both, so that autograd has
// twice the nodes; `by_halves`: the first one's turn has two batches, of real and of made data.
TEST(StepFinderTest, NetworksThatTakeTurnsMakeOneStepWithTheSameCalls) {
  for (const bool by_halves : {false, true}) {
    Job job;
    for (int step = 0; step < 60; ++step) {
      job.BeginStep();
      for (const bool is_second : {false, true}) {
        const int batches = by_halves && !is_second ? 2 : 1;
        job.ZeroGrad();
        for (int layer = 0; layer < 10; ++layer) job.Calls(1, 2);
        for (int batch = 0; batch < batches; ++batch) {
          for (int layer = 0; layer < 10; ++layer) job.Calls(1, 2);
          job.Call(20, ItemClass::kLoss);
        }
        for (int batch = 0; batch < batches; ++batch) {
          job.Call(890, ItemClass::kBackward);  // of the loss
          for (int layer = 0; layer < (is_second ? 20 : 10); ++layer) {
            job.Backward(2);
            job.Call(891, ItemClass::kAccumulate);
          }
        }
        job.Calls(40, 12);
        job.Optimize();
      }
    }
    const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
    EXPECT_EQ(StartsOf(finder), job.starts()) << finder.rule().how;
  }
}

TEST(StepFinderTest, AnActionMayBeFetchedInAnotherShape) {
  Job job;
  std::mt19937 random(11);
  for (int step = 0; step < 40; ++step) {
    job.BeginStep();
    for (uint32_t act = 20 + random() % 30; act > 0; --act) {
      job.Calls(100, 4);
      job.Call(110, ItemClass::kChoice);
      job.Call(112, ItemClass::kView);
      job.Call(111, ItemClass::kRead);
    }
    for (int update = 0; update < 4; ++update) job.Update(1, 8);
  }
  const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
  EXPECT_EQ(StartsOf(finder), job.starts()) << finder.rule().how;
}

TEST(StepFinderTest, AChoiceIsKnownByItsNameAndOverload) {
  const auto class_of = [](const char* name, const char* overload) {
    return ClassifyItem(name, overload, false, false);
  };
  EXPECT_EQ(class_of("aten::argmax", ""), ItemClass::kChoice);
  EXPECT_EQ(class_of("aten::argmin", ""), ItemClass::kOther);
  EXPECT_EQ(class_of("aten::max", "dim"), ItemClass::kChoice);
  EXPECT_EQ(class_of("aten::max", ""), ItemClass::kOther);
  EXPECT_EQ(class_of("aten::max", "other"), ItemClass::kOther);
  EXPECT_EQ(class_of("aten::topk", ""), ItemClass::kChoice);
  EXPECT_EQ(class_of("aten::cross_entropy_loss", ""), ItemClass::kLoss);
}

// Epochs of batches without training; after each of them the iterator says that there is no more.
// `shows`: a batch is put together by calls, as it is where no worker does.
Job JobOfEpochs(const std::vector<int>& lengths, bool shows, bool draws, bool has_metrics) {
  Job job;
  const auto next = [&job](bool has_calls) {
    job.Call(70, ItemClass::kLoaderNext, 20'000);
    job.items().back().has_calls = has_calls;
  };
  for (const int length : lengths) {
    if (draws) {  // the iterator's seed
      job.Call(71, ItemClass::kSource);
      job.Call(72, ItemClass::kDraw);
      job.Call(73, ItemClass::kRead);
    }
    for (int batch = 0; batch < length; ++batch) {
      job.BeginStep();
      next(shows);
      job.Calls(1, 6);
    }
    next(false);
    if (!has_metrics) continue;
    job.Calls(60, 2);
    job.Call(62, ItemClass::kRead);
  }
  return job;
}

TEST(StepFinderTest, AnIteratorThatHasNoMoreGivesNoBatch) {
  const std::vector<int> lengths = {5, 3, 1, 7, 2, 4, 4, 6};
  for (const bool shows : {false, true}) {
    for (const bool draws : {false, true}) {
      for (const bool has_metrics : {false, true}) {
        if (!shows && !draws && !has_metrics) continue;
        Job job = JobOfEpochs(lengths, shows, draws, has_metrics);
        const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
        EXPECT_EQ(StartsOf(finder), job.starts()) << shows << draws << has_metrics;
      }
    }
  }
}

TEST(StepFinderTest, EpochsOfOneBatchHaveOneStepEach) {
  Job job = JobOfEpochs(std::vector<int>(20, 1), true, true, true);
  EXPECT_EQ(Find(job.items(), job.now_ns() + 1'000'000'000).steps().size(), 20u);
}

TEST(StepFinderTest, AccumulatedGradientsOfTheLastBatchesOfAnEpochAreAStep) {
  Job job;
  for (int epoch = 0; epoch < 12; ++epoch) {
    for (const int batches : {4, 4, 2}) {
      job.BeginStep();
      for (int batch = 0; batch < batches; ++batch) {
        job.Call(70, ItemClass::kLoaderNext, 20'000);
        job.items().back().has_calls = true;
        job.Calls(1, 6);
        job.Backward(6);
      }
      job.Optimize();
    }
  }
  const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
  EXPECT_EQ(finder.steps().size(), job.starts().size()) << finder.rule().how;
}

// Threads of a pool that answer requests, one by one, and a thread that does something now and
// then.
TEST(StepsTest, AllThreadsOfAPoolAreCountedAndOthersHaveNoStep) {
  TimelineMaker maker;
  const std::vector<LabelId> labels = {
      maker.AddOperator("aten::embedding"), maker.AddOperator("aten::linear"),
      maker.AddOperator("aten::gelu"), maker.AddOperator("aten::softmax")};
  const LabelId rare = maker.AddOperator("aten::cumsum");
  std::vector<ThreadIndex> pool;
  for (uint32_t tid = 101; tid < 105; ++tid) pool.push_back(maker.AddThread(100, tid, "pool"));
  const ThreadIndex other = maker.AddThread(100, 105, "other");
  constexpr int kRequests = 30;
  for (int request = 0; request < kRequests; ++request) {
    for (size_t thread = 0; thread < pool.size(); ++thread) {
      int64_t now_ns = 6'000'000'000 + request * 1'000'000 + static_cast<int64_t>(thread) * 70'000;
      for (const LabelId label : labels) {
        maker.Add(pool[thread], label, now_ns, now_ns + 20'000);
        now_ns += 25'000;
      }
    }
    if (request % 7 == 3) {
      const int64_t now_ns = 6'000'500'000 + request * 1'000'000;
      maker.Add(other, rare, now_ns, now_ns + 5'000);
    }
  }
  maker.info().window.duration_ns = 2'000'000'000;
  const auto timeline = maker.Finish();
  const Steps steps = FindSteps(*timeline);
  ASSERT_EQ(steps.processes.size(), 1u);
  const ProcessSteps& process = steps.processes.front();
  EXPECT_EQ(process.others.size(), pool.size() - 1);
  EXPECT_NEAR(static_cast<double>(process.count()), kRequests * pool.size(), pool.size());
  EXPECT_NE(process.how.find("in 4 threads"), std::string::npos) << process.how;
  std::set<int64_t> numbers;
  for (int request = 2; request < kRequests - 2; ++request) {
    const int64_t now_ns = 6'000'000'000 + request * 1'000'000;
    for (size_t thread = 0; thread < pool.size(); ++thread) {
      const Step* step =
          steps.At(pool[thread], now_ns + static_cast<int64_t>(thread) * 70'000 + 30'000);
      ASSERT_NE(step, nullptr);
      EXPECT_TRUE(numbers.insert(step->number).second);
    }
    EXPECT_EQ(steps.At(other, now_ns + 500'000), nullptr);
  }
}

// One thread goes round a loop, others do most of the work in another way.
TEST(StepsTest, StepsOfAThreadThatDoesLittleAreAGuess) {
  TimelineMaker maker;
  const LabelId make = maker.AddOperator("aten::randn");
  const LabelId scale = maker.AddOperator("aten::div");
  std::vector<LabelId> labels;
  for (const char* name : {"aten::a", "aten::b", "aten::c", "aten::d", "aten::e", "aten::f"}) {
    labels.push_back(maker.AddOperator(name));
  }
  const ThreadIndex main = maker.AddThread(100, 100, "python3");
  std::vector<ThreadIndex> workers;
  for (uint32_t tid = 101; tid < 141; ++tid)
    workers.push_back(maker.AddThread(100, tid, "request"));
  std::mt19937 random(5);
  for (int request = 0; request < 40; ++request) {
    int64_t now_ns = 6'000'000'000 + request * 1'000'000;
    maker.Add(main, make, now_ns, now_ns + 5'000);
    maker.Add(main, scale, now_ns + 6'000, now_ns + 9'000);
    for (int call = static_cast<int>(random() % 20) + 3; call > 0; --call) {
      maker.Add(workers[static_cast<size_t>(request)], labels[random() % labels.size()], now_ns,
                now_ns + 20'000);
      now_ns += 25'000;
    }
  }
  maker.info().window.duration_ns = 2'000'000'000;
  const auto timeline = maker.Finish();
  const Steps steps = FindSteps(*timeline);
  ASSERT_EQ(steps.processes.size(), 1u);
  EXPECT_LT(steps.processes.front().confidence, kGuessBelow);
  EXPECT_EQ(steps.At(workers[20], 6'020'010'000), nullptr);
}

}  // namespace
}  // namespace proftrace
