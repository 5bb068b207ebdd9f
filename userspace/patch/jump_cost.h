// Measures what a jump with its record takes, in a copy of the recorder in this process: where its
// code and its data lie in the CPU's nearest caches, and where a job's own work has taken their
// place. In a job it lies in between (userspace/capture/site_reuse.h).
#pragma once

#include <absl/status/statusor.h>

namespace proftrace {

// Nanoseconds.
struct JumpCost {
  struct Price {
    double warm = 0;  // called again at once
    double cold = 0;  // a few calls after all caches were taken by others

    // `coldness`: from 0, warm, to 1.
    double At(double coldness) const { return warm + coldness * (cold - warm); }
  };
  Price record;
  Price count;  // of a call that is only counted
};

// Takes about a tenth of a second.
absl::StatusOr<JumpCost> MeasureJumpCost();

}  // namespace proftrace
