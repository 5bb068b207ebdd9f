// Compares two recordings of a job: which parts take longer or shorter, and whether the difference
// is larger than the usual difference between steps.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/compare/run_profile.h"

namespace proftrace {

// A time in both recordings, in milliseconds per step or, where one of the recordings has no steps,
// per second of the window.
struct Change {
  std::string name;
  double before_ms = 0;
  double after_ms = 0;
  // Four times the standard error of the difference; nullopt where it is not known.
  std::optional<double> noise_ms;
  double calls_before = 0;  // per step, or per second
  double calls_after = 0;

  double ms() const { return after_ms - before_ms; }
  // Returns whether the change is more than `noise_ms`. Where the noise is not known, a change of a
  // twentieth of the larger time or more counts.
  bool is_real() const;
};

// A finding of one verdict, beside the finding of the same kind in the other verdict.
struct FindingChange {
  enum class Kind { kNew, kGone, kMore, kLess };
  Kind kind = Kind::kNew;
  Finding finding;  // from the later recording, or from the earlier one where only that has it
  double before_ms = 0;
  double after_ms = 0;
  std::string was;  // what the earlier finding said, where that is something else
};

// The name in RunComparison::parts of the parts that only one of the recordings tells apart, as
// one.
inline constexpr std::string_view kUnknownParts = "unknown";

struct RunComparison {
  bool by_step = true;
  uint64_t steps_before = 0;
  uint64_t steps_after = 0;
  double median_before_ms = 0;  // of a step
  double median_after_ms = 0;
  Change whole;               // a step
  std::vector<Change> parts;  // the parts that took time, named and ordered as by StepPartName()
  // The rows whose change is_real() and is a hundredth of the step or more, the largest first.
  std::vector<Change> operators;
  std::vector<Change> modules;
  std::vector<Change> functions;  // by samples, where both recordings have some; without calls
  std::vector<FindingChange> findings;  // those that changed most come first
  // The factor by which the time per call of most operators has changed, where there is one and it
  // is not about 1. The cause is another processor or clock
  // frequency, or inputs of another size: a remark says which, as far as that is known.
  std::optional<double> common_factor;
  std::vector<std::string> remarks;  // sentences on what limits the trust in this comparison
};

RunComparison CompareRuns(const RunProfile& before, const RunProfile& after);

}  // namespace proftrace
