// Functions of two recordings beside each other, by samples: hand-made timelines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "exporters/text/compare_text.h"
#include "tests/support/timeline_maker.h"
#include "userspace/compare/run_comparison.h"
#include "userspace/compare/run_profile.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;

// A job of forty steps of 20 ms, with a look each millisecond: most of them in `train`, which runs
// the loop, and what `In()` says in functions that it calls.
class SampledJob {
 public:
  explicit SampledJob(std::string script) : script_(std::move(script)) {
    maker_.info().targets.push_back({.pid = Pid{7}, .cmdline = {"python", "/jobs/" + script_}});
    top_ = Frame("<module>", script_, false, 0);
    loop_ = Frame("train", script_, false, top_);
  }

  SampledJob& AtTopLevel(int looks) {
    calls_.emplace_back(top_, looks);
    return *this;
  }

  // `looks` of the next steps' twenty are in the job's `function`, at that line.
  SampledJob& In(const std::string& function, int line, int looks) {
    calls_.emplace_back(Frame(function, script_, false, loop_, line), looks);
    return *this;
  }
  // They are in a library's function that the job's function calls.
  SampledJob& InLibrary(const std::string& library, const std::string& function, int looks) {
    calls_.emplace_back(Frame(function, library, true, loop_), looks);
    return *this;
  }

  // `varies`: each look is in a function by chance, as often in the mean.
  RunProfile Profile(bool varies = false) {
    std::mt19937 random(3);
    int64_t now_ns = 20 * kMs;
    for (int step = 0; step < 40; ++step, now_ns += 20 * kMs) {
      maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), now_ns);
      maker_.Add(thread_, mm_, now_ns, now_ns + 5 * kMs);
      maker_.End(thread_, now_ns + 20 * kMs);
      for (int look = 0; look < 20; ++look) {
        const int place = varies ? static_cast<int>(random() % 20) : look;
        samples_.samples.push_back({.time_ns = now_ns + look * kMs,
                                    .period_ns = kMs,
                                    .count = 1,
                                    .frame = FrameAt(place),
                                    .thread = thread_});
      }
    }
    maker_.info().window = {.start_ns = 0, .duration_ns = now_ns};
    maker_.SetSamples(samples_);
    const std::unique_ptr<Timeline> timeline = maker_.Finish();
    return *ProfileRun(*timeline, Aggregate(*timeline, {}));
  }

 private:
  uint32_t Frame(const std::string& name, const std::string& file, bool is_installed,
                 uint32_t caller, int line = 1) {
    samples_.functions.push_back(
        {Pid{7}, SampleFrameKind::kPython, name, file, line, is_installed});
    samples_.frames.push_back({caller, static_cast<uint32_t>(samples_.functions.size() - 1), line});
    return static_cast<uint32_t>(samples_.frames.size() - 1);
  }
  uint32_t FrameAt(int place) const {
    for (const auto& [frame, looks] : calls_) {
      if (place < looks) return frame;
      place -= looks;
    }
    return loop_;
  }

  std::string script_;
  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(7, 7, "main");
  LabelId mm_ = maker_.AddOperator("aten::mm");
  Samples samples_;
  uint32_t top_ = 0;
  uint32_t loop_ = 0;
  std::vector<std::pair<uint32_t, int>> calls_;
};

std::string TextOf(const RunProfile& before, const RunProfile& after) {
  return FormatComparison(CompareRuns(before, after), -1);
}

TEST(CompareFunctionsTest, TellsWhatTookMoreInMillisecondsAStep) {
  SampledJob before("loop.py"), after("loop.py");
  const RunComparison comparison = CompareRuns(before.In("log", 9, 2).In("model", 20, 6).Profile(),
                                               after.In("log", 12, 7).In("model", 23, 6).Profile());
  ASSERT_EQ(comparison.functions.size(), 1u);
  EXPECT_EQ(comparison.functions[0].name, "loop.py: log");
  EXPECT_NEAR(comparison.functions[0].before_ms, 2, 0.01);
  EXPECT_NEAR(comparison.functions[0].after_ms, 7, 0.01);
}

TEST(CompareFunctionsTest, FunctionsOfLibrariesCountWhileTheyRunThemselves) {
  SampledJob before("loop.py"), after("loop.py");
  EXPECT_THAT(
      TextOf(before.Profile(), after.InLibrary("json/encoder.py", "iterencode", 8).Profile()),
      HasSubstr("json/encoder.py: iterencode                      0.000  8.00   +8.00"));
}

TEST(CompareFunctionsTest, TheTopLevelOfAScriptCountsWhileItRunsItself) {
  SampledJob before("loop.py"), after("loop.py");
  after.AtTopLevel(5);
  const RunComparison comparison =
      CompareRuns(before.In("model", 20, 6).Profile(), after.In("model", 20, 6).Profile());
  ASSERT_EQ(comparison.functions.size(), 2u);
  EXPECT_EQ(comparison.functions[0].name, "loop.py: <module>");
  EXPECT_NEAR(comparison.functions[0].ms(), 5, 0.01);
  EXPECT_EQ(comparison.functions[1].name, "loop.py: train");  // which had all, and runs less
}

TEST(CompareFunctionsTest, AScriptOfAnotherNameIsTheSame) {
  SampledJob before("train_v1.py"), after("train_v2.py");
  const std::string text =
      TextOf(before.In("model", 20, 6).Profile(), after.In("model", 20, 6).Profile());
  EXPECT_THAT(text, Not(HasSubstr("Functions that changed")));
}

TEST(CompareFunctionsTest, ChanceIsNoChange) {
  SampledJob before("loop.py"), after("loop.py");
  before.In("log", 9, 2).In("model", 20, 6).In("data", 30, 3);
  after.In("log", 9, 2).In("model", 20, 6).In("data", 30, 3);
  EXPECT_THAT(TextOf(before.Profile(/*varies=*/false), after.Profile(/*varies=*/true)),
              Not(HasSubstr("Functions that changed")));
}

TEST(CompareFunctionsTest, WithoutSamplesInBothThereIsNone) {
  SampledJob before("loop.py"), after("loop.py");
  RunProfile earlier = before.Profile();
  earlier.has_samples = false;
  EXPECT_TRUE(CompareRuns(earlier, after.In("log", 9, 7).Profile()).functions.empty());
}

}  // namespace
}  // namespace proftrace
