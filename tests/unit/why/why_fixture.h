// A job of made-up steps, for the rules of the verdict.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/why/step_parts.h"
#include "userspace/why/verdict.h"

namespace proftrace {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kStepNs = 10 * kMs;
inline constexpr int kSteps = 12;

// Steps of 10 ms that the job annotates itself; each has an operator of 2 ms in its middle.
class WhyTest : public testing::Test {
 protected:
  WhyTest() {
    maker_.info().targets.push_back({.pid = Pid{7}});
    maker_.info().window = {.start_ns = 0, .duration_ns = (kSteps + 1) * kStepNs};
    maker_.info().host.cpus = 4;
  }

  static int64_t BeginOf(int step) { return (step + 1) * kStepNs; }

  // `middle(step, from_ns, to_ns)`: what is in the 6 ms after the operator.
  template <typename Middle>
  void MakeSteps(Middle&& middle, int64_t gap_ns = 0) {
    for (int step = 0; step < kSteps; ++step) {
      const int64_t at_ns = BeginOf(step) + step * gap_ns;
      maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), at_ns);
      maker_.Add(thread_, multiply_, at_ns + kMs, at_ns + 3 * kMs);
      middle(step, at_ns + 3 * kMs, at_ns + 9 * kMs);
      maker_.End(thread_, at_ns + kStepNs);
    }
  }

  StepParts Parts() {
    timeline_ = maker_.Finish();
    aggregates_ = Aggregate(*timeline_, {});
    const std::optional<StepParts> parts = SplitSteps(*timeline_, aggregates_.steps);
    return parts.value_or(StepParts());
  }

  Verdict Why() {
    timeline_ = maker_.Finish();
    aggregates_ = Aggregate(*timeline_, {});
    return FindVerdict(*timeline_, aggregates_);
  }

  static std::string EvidenceOf(const Finding& finding) {
    std::string all;
    for (const std::string& sentence : finding.evidence) all += sentence + " ";
    return all;
  }

  // nullopt: nothing of that kind is told.
  static std::optional<Finding> FindKind(const Verdict& verdict, FindingKind kind) {
    for (const Finding& finding : verdict.findings) {
      if (finding.kind == kind) return finding;
    }
    return std::nullopt;
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(7, 7, "main");
  ThreadIndex other_ = maker_.AddThread(7, 8, "holder");
  LabelId multiply_ = maker_.AddOperator("aten::mm");
  std::unique_ptr<Timeline> timeline_;
  Aggregates aggregates_;
};

}  // namespace proftrace
