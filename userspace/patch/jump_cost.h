// Measures what a jump with its record takes, in a loop in this process: a lower bound, as a job's
// caches are colder.
#pragma once

#include <absl/status/statusor.h>

namespace proftrace {

// Nanoseconds.
struct JumpCost {
  double record = 0;
  double count = 0;  // of a call that is only counted
};

// Takes a few milliseconds.
absl::StatusOr<JumpCost> MeasureJumpCost();

}  // namespace proftrace
