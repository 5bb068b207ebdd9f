// Where the job's own annotations stand: no step ends within one that ends with it.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "exporters/tables/csv.h"
#include "tests/support/step_job.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/key_averages.h"
#include "userspace/aggregate/steps.h"

namespace proftrace {
namespace {

constexpr uint32_t kForward = 500;
constexpr uint32_t kOptimize = 501;
constexpr uint32_t kWhole = 502;
constexpr uint32_t kEpoch = 503;

// As ExpectTruth(), and what an annotation holds is in one step with it.
void ExpectWhole(Job& job, double confidence = 0.9) {
  ExpectTruth(job, confidence);
  const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
  for (const FoundStep& step : finder.steps()) {
    for (const StepItem& item : job.items()) {
      const bool begins_in_it = item.start_ns >= step.start_ns && item.start_ns < step.end_ns;
      if (begins_in_it) EXPECT_LE(item.end_ns, step.end_ns) << item.symbol;
      // An item around the step has all of it.
      const bool is_around = item.start_ns < step.start_ns && item.end_ns > step.start_ns;
      if (is_around) EXPECT_GE(item.end_ns, step.end_ns) << item.symbol;
    }
  }
}

// The pause before zeroed gradients says nothing: here it is the longest.
TEST(AnnotatedStepsTest, ZeroedGradientsBesideTheOptimizer) {
  Job job;
  for (int step = 0; step < 20; ++step) {
    job.BeginStep();
    job.Annotated(kForward, [&] {
      job.Calls(1, 8);
      job.Backward(8);
    });
    job.Annotated(kOptimize, [&] {
      job.Optimize();
      job.Pause(30'000);
      job.ZeroGrad();
    });
  }
  ExpectWhole(job);
}

TEST(AnnotatedStepsTest, ManyCallsBehindTheOptimizer) {
  Job job;
  for (int step = 0; step < 20; ++step) {
    job.BeginStep();
    job.Annotated(kWhole, [&] {
      job.Update(1, 8);
      job.Calls(600, 60);  // an average of the weights
    });
  }
  ExpectWhole(job);
}

TEST(AnnotatedStepsTest, ABatchAndTheRestInEpochs) {
  Job job;
  for (int epoch = 0; epoch < 5; ++epoch) {
    job.Annotated(kEpoch, [&] {
      for (int step = 0; step < 12; ++step) {
        job.BeginStep();
        job.Call(700, ItemClass::kLoaderNext, 20'000);
        job.Annotated(kWhole, [&] {
          job.Calls(1, 8);
          job.Backward(8);
          job.Optimize();
          job.Pause(30'000);
          job.ZeroGrad();
        });
      }
    });
  }
  ExpectWhole(job);
}

TEST(AnnotatedStepsTest, TwoOptimizersInOne) {
  Job job;
  for (int step = 0; step < 20; ++step) {
    job.BeginStep();
    job.Annotated(kWhole, [&] {
      job.Update(1, 8);
      job.Calls(30, 6);
      job.Backward(4);
      job.Optimize();
      job.Pause(30'000);
      job.ZeroGrad();
      job.ZeroGrad();
    });
  }
  const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
  EXPECT_EQ(StartsOf(finder), job.starts()) << finder.rule().how;
}

// Only some rounds have more behind the optimizer.
TEST(AnnotatedStepsTest, LoggingWithin) {
  Job job;
  for (int step = 0; step < 40; ++step) {
    job.BeginStep();
    job.Annotated(kWhole, [&] {
      job.Update(1, 8);
      if (step % 10 != 9) return;
      job.Pause(30'000);
      job.Call(50, ItemClass::kReduce);
      job.Calls(60, 5);
    });
  }
  ExpectWhole(job);
}

TEST(AnnotatedStepsTest, BatchesThatAreFetchedWithin) {
  Job job;
  for (int step = 0; step < 20; ++step) {
    job.BeginStep();
    job.Annotated(kWhole, [&] {
      job.Call(700, ItemClass::kLoaderNext, 20'000);
      job.Calls(1, 12);
    });
  }
  const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
  EXPECT_EQ(StartsOf(finder), job.starts()) << finder.rule().how;
}

// A program of annotations, operators and allocations, whose steps are annotations of its own or
// are left out.
class Program {
 public:
  Program(uint32_t seed, bool has_annotations) : random_(seed), has_annotations_(has_annotations) {
    thread_ = maker_.AddThread(1, 1, "python3");
    epoch_ = maker_.AddAnnotation("an \"epoch\", say");
    inner_ = maker_.AddAnnotation("inner");
    work_ = maker_.AddOperator("aten::add", "Tensor");
    other_ = maker_.AddOperator("aten::mul");
    process_.pid = Pid{1};
    process_.thread = thread_;
    process_.are_annotated = has_annotations;
    for (int round = 0; round < 6; ++round) {
      Work(0);
      const bool in_epoch = random_() % 3 != 0;
      const bool in_two = random_() % 3 == 0;
      if (in_epoch) Begin(epoch_);
      if (in_two) Begin(inner_);
      for (uint32_t steps = random_() % 4; steps-- > 0;) {
        Step();
        Work(0);
      }
      if (in_two) End();
      Work(0);
      if (in_epoch) End();
    }
    Target target;
    target.pid = Pid{1};
    target.memory_recorded = true;
    maker_.info().targets.push_back(target);
    maker_.info().window.start_ns = kStartNs;
    maker_.info().window.duration_ns = now_ns_ - kStartNs;
    timeline_ = maker_.Finish();
    steps_.processes.push_back(process_);
    steps_.process_of_thread.emplace_back(0);
  }

  std::pair<std::string, std::string> Csv() const {
    const StepRows rows(*timeline_, steps_);
    EXPECT_EQ(rows.rows().size(), has_annotations_ ? 0 : process_.steps.size());
    StringSink events;
    EXPECT_TRUE(ExportEventsCsv(*timeline_, steps_, rows, events).ok());
    StringSink averages;
    EXPECT_TRUE(ExportKeyAveragesCsv(BuildKeyAverages(*timeline_, {}, rows), averages).ok());
    return {events.text(), averages.text()};
  }

 private:
  int64_t Tick() { return now_ns_ += 10 + random_() % 1'000; }
  void Begin(LabelId label) { open_.push_back({maker_.Begin(thread_, label, Tick()), {}}); }
  void End() {
    maker_.End(thread_, Tick());
    EXPECT_TRUE(maker_.SetMemory(open_.back().first, open_.back().second).ok());
    open_.pop_back();
  }
  void Step() {
    const int64_t number = static_cast<int64_t>(process_.steps.size());
    if (has_annotations_) {
      Begin(maker_.AddAnnotation("ProfilerStep#" + std::to_string(number)));
    } else {
      Tick();
    }
    process_.steps.push_back({now_ns_, 0, number});
    Work(1);
    if (has_annotations_) {
      End();
    } else {
      Tick();
    }
    process_.steps.back().end_ns = now_ns_;
  }
  void Work(int depth) {
    for (uint32_t calls = random_() % 5; calls-- > 0;) {
      if (random_() % 3 == 0) Allocate();
      Begin(random_() % 4 == 0 ? inner_ : random_() % 2 == 0 ? work_ : other_);
      if (random_() % 3 == 0) Allocate();
      if (depth < 4) Work(depth + 1);
      End();
    }
  }
  void Allocate() {
    MemoryEvent event;
    event.time_ns = Tick();
    event.bytes = static_cast<int64_t>(random_() % 1'000) - 300;
    event.thread = thread_;
    for (auto& [span, memory] : open_) memory.cpu_bytes += event.bytes;
    if (!open_.empty()) {
      open_.back().second.self_cpu_bytes += event.bytes;
      event.parent = open_.back().first;
    }
    EXPECT_TRUE(maker_.AddMemoryEvent(event).ok());
  }

  std::mt19937 random_;
  bool has_annotations_;
  TimelineMaker maker_;
  ThreadIndex thread_{};
  LabelId epoch_{}, inner_{}, work_{}, other_{};
  int64_t now_ns_ = kStartNs;
  std::vector<std::pair<SpanId, SpanMemory>> open_;
  ProcessSteps process_;
  Steps steps_;
  std::unique_ptr<Timeline> timeline_;
};

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Found or annotated by the job, a step stands at the same place with the same sums.
TEST(AnnotatedStepsTest, RowsOfStepsAreWhatAnnotationsWouldBe) {
  size_t all_rows = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const auto [events, averages] = Program(seed, /*has_annotations=*/false).Csv();
    const auto [their_events, their_averages] = Program(seed, /*has_annotations=*/true).Csv();
    EXPECT_EQ(LinesOf(averages), LinesOf(their_averages)) << seed;
    const std::vector<std::string> ours = LinesOf(events);
    const std::vector<std::string> theirs = LinesOf(their_events);
    ASSERT_EQ(ours.size(), theirs.size()) << seed;
    all_rows += ours.size();
    for (size_t i = 0; i < ours.size(); ++i) ASSERT_EQ(ours[i], theirs[i]) << seed;
  }
  EXPECT_GT(all_rows, 10'000u);
}

}  // namespace
}  // namespace proftrace
