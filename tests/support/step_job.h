// Made-up jobs for the tests of step detection.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "userspace/steps/step_finder.h"

namespace proftrace {

inline constexpr int64_t kStartNs = 1'000'000'000;

// A job on one thread, told call by call, that keeps the truth about its steps.
class Job {
 public:
  void Call(uint32_t symbol, ItemClass item_class = ItemClass::kOther, int64_t ns = 5'000) {
    items_.push_back({now_ns_, now_ns_ + ns, symbol, item_class, false});
    now_ns_ += ns + 1'000;
  }
  void Calls(uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) Call(first + i);
  }
  void Backward(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) Call(900 + i, ItemClass::kBackward);
  }
  void ZeroGrad() { Call(800, ItemClass::kZeroGrad); }
  void Optimize() { Call(801, ItemClass::kOptimizerStep, 50'000); }
  void Update(uint32_t first, uint32_t count) {
    ZeroGrad();
    Calls(first, count);
    Backward(count);
    Optimize();
  }
  void Pause(int64_t ns) { now_ns_ += ns; }
  // An annotation: what `body` calls is in it.
  template <typename Body>
  void Annotated(uint32_t symbol, Body&& body) {
    const size_t index = items_.size();
    items_.push_back({now_ns_, 0, symbol, ItemClass::kAnnotation, false});
    now_ns_ += 500;
    body();
    items_[index].end_ns = now_ns_;
    now_ns_ += 500;
  }
  // The loop comes round: Python takes a while.
  void BeginStep() {
    Pause(4'000);
    starts_.push_back(now_ns_);
  }

  std::vector<StepItem>& items() { return items_; }
  const std::vector<int64_t>& starts() const { return starts_; }
  int64_t now_ns() const { return now_ns_; }

 private:
  int64_t now_ns_ = kStartNs + 50'000'000;  // nothing ran for a while before
  std::vector<StepItem> items_;
  std::vector<int64_t> starts_;
};

inline StepFinder Find(const std::vector<StepItem>& items, int64_t end_ns) {
  StepFinder finder(1u << 19, kStartNs);
  for (const StepItem& item : items) finder.Add(item);
  finder.Look(end_ns);
  return finder;
}

inline std::vector<int64_t> StartsOf(const StepFinder& finder) {
  std::vector<int64_t> starts;
  for (const FoundStep& step : finder.steps()) starts.push_back(step.start_ns);
  return starts;
}

// Every step found, and where it began; nothing ran after the last one.
inline void ExpectTruth(Job& job, double confidence = 0.7) {
  const StepFinder finder = Find(job.items(), job.now_ns() + 1'000'000'000);
  EXPECT_EQ(StartsOf(finder), job.starts()) << finder.rule().how;
  EXPECT_GE(finder.confidence(), confidence) << finder.rule().how;
}

}  // namespace proftrace
