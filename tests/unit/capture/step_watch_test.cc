#include "userspace/capture/session/step_watch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/record_maker.h"

namespace proftrace {
namespace {

constexpr int64_t kStartNs = 1'000'000'000;

// A training job as the probes see it: entering and leaving an annotation are boxed calls.
class TrainingJob {
 public:
  void Call(uint16_t site, int64_t ns = 3'000) {
    maker_.Begin(kTid, now_ns_, site, 10);
    maker_.Begin(kTid, now_ns_ + ns / 3, 4, 11);  // something inside
    maker_.End(kTid, now_ns_ + ns / 2, 4, 11);
    maker_.End(kTid, now_ns_ + ns, site, 10);
    now_ns_ += ns + 1'000;
  }
  void Enter(const std::string& name, uint64_t handle) {
    maker_.Boxed(kTid, now_ns_, 5, 10, 0x2000);
    maker_.AnnotationBegin(kTid, now_ns_ + 100, name);
    maker_.AnnotationHandle(kTid, now_ns_ + 200, handle);
    maker_.End(kTid, now_ns_ + 300, 5, 10);
    now_ns_ += 1'000;
  }
  void Leave(uint64_t handle) {
    maker_.Boxed(kTid, now_ns_, 5, 10, 0x3000);
    maker_.AnnotationEnd(kTid, now_ns_ + 100, handle);
    maker_.End(kTid, now_ns_ + 300, 5, 10);
    now_ns_ += 1'000;
  }
  void Step(bool annotated) {
    now_ns_ += 5'000;
    starts_.push_back(now_ns_);
    if (annotated) Enter("forward", 1);
    for (uint16_t site = 1; site <= 3; ++site) Call(site);
    if (annotated) Leave(1);
    Backward();
    Enter("Optimizer.step#SGD.step", 2);
    for (int i = 0; i < 4; ++i) Call(2);
    Leave(2);
  }
  // A whole round in one annotation; `rest` is what comes in it behind the optimizer.
  template <typename Rest>
  void Step(Rest&& rest) {
    now_ns_ += 5'000;
    starts_.push_back(now_ns_);
    Enter("train", 3);
    for (uint16_t site = 1; site <= 3; ++site) Call(site);
    Backward();
    Enter("Optimizer.step#SGD.step", 2);
    Call(2);
    Leave(2);
    rest();
    Leave(3);
  }
  void Backward() {
    for (int i = 0; i < 3; ++i) {
      maker_.Node(kTid, now_ns_, 6, 10, 0xa0 + static_cast<uint64_t>(i), 0, "");
      maker_.End(kTid, now_ns_ + 2'000, 6, 10);
      now_ns_ += 3'000;
    }
  }
  void Feed(StepWatch* watch) {
    std::vector<std::byte>& bytes = maker_.bytes();
    for (size_t at = 0; at < bytes.size();) {
      abi::pt_record head;
      std::memcpy(&head, bytes.data() + at, sizeof(head));
      const size_t size = size_t{head.words} * 8;
      watch->Observe(std::span(bytes).subspan(at, size));
      at += size;
    }
    bytes.clear();
  }
  const std::vector<int64_t>& starts() const { return starts_; }
  RecordMaker& maker() { return maker_; }

 private:
  RecordMaker maker_;
  int64_t now_ns_ = kStartNs + 100'000'000;
  std::vector<int64_t> starts_;
};

StepWatch MakeWatch(size_t most_steps = 0) {
  return StepWatch(
      [](Pid, uint16_t site) {
        Label label;
        label.name = "aten::" + std::to_string(site);
        if (site == 6) label.kind = SpanKind::kAutograd;
        return std::optional<Label>(label);
      },
      kStartNs, most_steps);
}

TEST(StepWatchTest, FindsTheStepsWhileTheyComeIn) {
  for (const bool annotated : {false, true}) {
    TrainingJob job;
    StepWatch watch = MakeWatch();
    for (int step = 0; step < 40; ++step) {
      job.Step(annotated);
      job.Feed(&watch);
      if (step < 4) continue;
      const std::optional<RecordedSteps> steps = watch.Find();
      ASSERT_TRUE(steps.has_value());
      ASSERT_EQ(steps->intervals.size(), static_cast<size_t>(step + 1));
      for (int i = 0; i <= step; ++i) {
        // The annotation's own record comes a little after its call began.
        ASSERT_LE(std::abs(steps->intervals[i].first - job.starts()[i]), 100);
      }
      EXPECT_EQ(steps->tid, Tid{kTid});
    }
  }
}

// The job goes on while the probes are taken off.
TEST(StepWatchTest, FindsNoStepsBehindTheEnd) {
  for (const bool annotated : {false, true}) {
    TrainingJob job;
    StepWatch watch = MakeWatch();
    for (int step = 0; step < 10; ++step) job.Step(annotated);
    job.Feed(&watch);
    for (int step = 0; step < 20; ++step) job.Step(annotated);
    const int64_t end_ns = job.starts()[15] + 20'000;  // within this one
    watch.EndAt(end_ns);
    job.Feed(&watch);
    const std::optional<RecordedSteps> steps = watch.Find();
    ASSERT_TRUE(steps.has_value());
    ASSERT_EQ(steps->intervals.size(), 15u);
    EXPECT_LE(steps->intervals.back().second, end_ns);
  }
}

// The annotation's end alone tells that what is behind the optimizer is of the same round.
TEST(StepWatchTest, SeesWhereAnnotationsEnd) {
  TrainingJob job;
  StepWatch watch = MakeWatch();
  for (uint64_t step = 0; step < 40; ++step) {
    job.Step([&job] {
      for (int call = 0; call < 5; ++call) job.Call(3, 20'000);
    });
    job.Feed(&watch);
  }
  const std::optional<RecordedSteps> steps = watch.Find();
  ASSERT_TRUE(steps.has_value());
  ASSERT_EQ(steps->intervals.size(), 40u);
  for (size_t i = 0; i < 40; ++i) {
    ASSERT_LE(std::abs(steps->intervals[i].first - job.starts()[i]), 100);
  }
}

TEST(StepWatchTest, IsNotSureBeforeALongerRoundWouldShow) {
  TrainingJob job;
  StepWatch watch = MakeWatch();
  for (int step = 0; step < 5; ++step) job.Step(false);
  job.Feed(&watch);
  EXPECT_FALSE(watch.HasSurely(3));
  for (int step = 0; step < 15; ++step) job.Step(false);
  job.Feed(&watch);
  EXPECT_TRUE(watch.HasSurely(3));
  EXPECT_FALSE(watch.HasSurely(21));
}

TEST(StepWatchTest, KeepsTheLastStepsAloneWhereItMay) {
  TrainingJob job;
  StepWatch watch = MakeWatch(/*most_steps=*/100);
  constexpr int kSteps = 20'000;
  for (int step = 0; step < kSteps; ++step) {
    job.Step(false);
    job.Feed(&watch);
  }
  const std::optional<RecordedSteps> steps = watch.Find();
  ASSERT_TRUE(steps.has_value());
  EXPECT_LT(steps->intervals.size(), 10'000u);
  EXPECT_GE(steps->intervals.size(), 100u);
  EXPECT_EQ(steps->first_number + static_cast<int64_t>(steps->intervals.size()), kSteps);
  EXPECT_EQ(steps->intervals.back().first, job.starts().back());
}

TEST(StepWatchTest, ForgetsThreadsThatEndWhereItMay) {
  for (const size_t most_steps : {0, 100}) {
    TrainingJob job;
    StepWatch watch = MakeWatch(most_steps);
    for (int step = 0; step < 20; ++step) job.Step(false);
    job.Feed(&watch);
    EXPECT_TRUE(watch.Find().has_value());
    job.maker().ThreadExit(kTid, kStartNs * 2, /*group_dead=*/false);
    job.Feed(&watch);
    EXPECT_EQ(watch.Find().has_value(), most_steps == 0);
  }
}

TEST(StepWatchTest, KeepsOfEndedThreadsTheBestAlone) {
  TrainingJob job;
  StepWatch watch = MakeWatch();
  for (int step = 0; step < 20; ++step) job.Step(false);
  job.Feed(&watch);
  constexpr int64_t kNs = kStartNs * 2;
  for (uint32_t worker = 1000; worker < 1100; ++worker) {
    for (int call = 0; call < 10; ++call) {
      job.maker().Begin(worker, kNs + call * 10, 1, 10);
      job.maker().End(worker, kNs + call * 10 + 5, 1, 10);
    }
    job.maker().ThreadExit(worker, kNs + 1000, /*group_dead=*/false);
  }
  job.Feed(&watch);
  EXPECT_EQ(watch.kept_threads(), 1u);
  job.maker().Begin(2000, kNs + 2000, 1, 10);
  job.maker().ThreadExit(kTid, kNs + 3000, /*group_dead=*/true);
  job.Feed(&watch);
  EXPECT_EQ(watch.kept_threads(), 1u) << "the whole process has ended";
  const std::optional<RecordedSteps> steps = watch.Find();
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(steps->tid, Tid{kTid});
  EXPECT_EQ(steps->intervals.size(), 20u);
}

TEST(StepWatchTest, ABetterThreadTakesTheEndedOnesPlace) {
  StepWatch watch = MakeWatch();
  TrainingJob job;
  for (uint32_t tid = 1; tid <= 10; ++tid) {
    for (uint32_t call = 0; call < tid; ++call) {
      job.maker().Begin(tid, kStartNs + call * 10, 1, 10);
      job.maker().End(tid, kStartNs + call * 10 + 5, 1, 10);
    }
    job.maker().ThreadExit(tid, kStartNs + 1000, /*group_dead=*/false);
  }
  job.Feed(&watch);
  EXPECT_EQ(watch.kept_threads(), 1u);
}

TEST(StepWatchTest, SurvivesAnyRecords) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    TrainingJob job;
    StepWatch watch = MakeWatch();
    for (int i = 0; i < 400; ++i) {
      abi::pt_text_record record{};
      record.head =
          RecordMaker::Head(static_cast<uint8_t>(random() % 20), random() % 3, kStartNs + i * 1'000,
                            static_cast<uint16_t>(random() % 8), static_cast<uint32_t>(random()));
      record.length = random() % 2 == 0 ? PT_TEXT_READ_FAILED : static_cast<uint32_t>(random());
      for (char& c : record.text) c = static_cast<char>(random());
      job.maker().Add(record);
    }
    job.Feed(&watch);
    (void)watch.Find();
  }
}

}  // namespace
}  // namespace proftrace
