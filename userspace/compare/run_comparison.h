// Lays two recordings of a job beside each other: what takes longer or shorter, and whether that is
// more than what steps differ by anyway.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "userspace/compare/run_profile.h"

namespace proftrace {

// Milliseconds a step, or, where one recording has no steps, a second of the window.
struct Change {
  std::string name;
  double before_ms = 0;
  double after_ms = 0;
  // Twice the standard error of the difference; nullopt: not known.
  std::optional<double> noise_ms;
  double calls_before = 0;  // a step, or a second
  double calls_after = 0;

  double ms() const { return after_ms - before_ms; }
  // Whether it is more than noise: twice it, as many rows are looked at. Where noise is not known:
  // a twentieth of the larger one or more.
  bool is_real() const;
};

// A finding of one verdict and its like in the other.
struct FindingChange {
  enum class Kind { kNew, kGone, kMore, kLess };
  Kind kind = Kind::kNew;
  Finding finding;  // of the later recording; of kGone, of the earlier one
  double before_ms = 0;
  double after_ms = 0;
};

struct RunComparison {
  bool by_step = true;
  uint64_t steps_before = 0;
  uint64_t steps_after = 0;
  double median_before_ms = 0;  // of a step
  double median_after_ms = 0;
  Change whole;               // a step
  std::vector<Change> parts;  // StepPartName(), in their order; such that took time
  // Rows that are is_real() and changed by a hundredth of the step or more, the largest first.
  std::vector<Change> operators;
  std::vector<Change> modules;
  std::vector<FindingChange> findings;  // those of the later verdict first
  // The factor that most operators' times a call have in common, where there is one, and it is not
  // about 1: another processor, or another clock of it.
  std::optional<double> common_factor;
  std::vector<std::string> remarks;  // sentences: what bounds the trust in this
};

RunComparison CompareRuns(const RunProfile& before, const RunProfile& after);

}  // namespace proftrace
