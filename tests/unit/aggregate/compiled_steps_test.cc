// Steps in some of which torch.compile compiles: that is no other work of the loop.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/compilations.h"

namespace proftrace {
namespace {

constexpr int64_t kUs = 1'000;
constexpr int kSteps = 60;

// A training of one compiled model: `every`: in each so many steps a version is compiled.
class CompiledJob {
 public:
  explicit CompiledJob(int every) {
    for (int step = 0; step < kSteps; ++step) AddStep(step / every, step % every == 0);
    maker_.info().window = {.start_ns = 0, .duration_ns = now_ns_ + 1'000'000 * kUs};
    timeline_ = maker_.Finish();
  }

  const Timeline& timeline() const { return *timeline_; }

 private:
  void Add(LabelId label, int64_t us) {
    maker_.Add(thread_, label, now_ns_, now_ns_ + us * kUs);
    now_ns_ += (us + 2) * kUs;
  }

  void AddStep(int version, bool compiles) {
    Add(zero_grad_, 20);
    Add(lookup_, 10);
    // The tracer calls operators itself, more of them for each version.
    for (int i = 0; compiles && i < 40 + version % 7; ++i) {
      Add(maker_.AddOperator("aten::traced_" + std::to_string(i % 9)), 100);
    }
    const LabelId region =
        maker_.AddAnnotation("Torch-Compiled Region: 0/" + std::to_string(version));
    maker_.Begin(thread_, region, now_ns_);
    Add(multiply_, 300);
    maker_.End(thread_, now_ns_);
    Add(loss_, 20);
    Add(optimize_, 60);
    now_ns_ += 40 * kUs;
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(7, 7, "main");
  LabelId zero_grad_ = maker_.AddAnnotation("Optimizer.zero_grad#SGD.zero_grad");
  LabelId optimize_ = maker_.AddAnnotation("Optimizer.step#SGD.step");
  LabelId lookup_ = maker_.AddAnnotation("TorchDynamo Cache Lookup");
  LabelId multiply_ = maker_.AddOperator("aten::mm");
  LabelId loss_ = maker_.AddOperator("aten::mse_loss");
  int64_t now_ns_ = 50'000 * kUs;
  std::unique_ptr<Timeline> timeline_;
};

TEST(CompiledStepsTest, EachStepIsOneWhicheverCompiles) {
  for (const int every : {3, 2, kSteps}) {
    const CompiledJob job(every);
    const Aggregates aggregates = Aggregate(job.timeline(), {});
    const Steps& steps = aggregates.steps;
    ASSERT_TRUE(steps.main.has_value());
    EXPECT_EQ(steps.processes[*steps.main].steps.size(), static_cast<size_t>(kSteps))
        << every << ": " << steps.processes[*steps.main].how;
  }
}

TEST(CompiledStepsTest, TheFirstRunOfAVersionEndsItsCompilation) {
  const CompiledJob job(3);
  const auto compilations = FindCompilations(job.timeline());
  ASSERT_EQ(compilations.size(), 1u);
  EXPECT_EQ(compilations[0].size(), static_cast<size_t>(kSteps / 3));
  for (const Compilation& one : compilations[0]) {
    EXPECT_GT(one.end_ns - one.start_ns, 4'000 * kUs);
  }
}

}  // namespace
}  // namespace proftrace
