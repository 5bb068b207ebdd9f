// Measures how long a jump and its record take, by a copy of the recorder in this process: once
// with the code and data in the CPU's nearest caches, and once after other code and data has
// displaced them, as a job's own work does. In a job the price lies between the two
// (userspace/capture/kernel/site_reuse.h).
#pragma once

#include <absl/status/statusor.h>

namespace proftrace {

// Prices in nanoseconds.
struct JumpCost {
  struct Price {
    double warm = 0;  // of a call right after another one
    double cold = 0;  // of each of a few calls after other data has filled all caches

    // Returns the price for a `coldness` from 0 (warm) to 1 (cold).
    double At(double coldness) const { return warm + coldness * (cold - warm); }
  };
  Price record;
  Price count;  // of a call that is only counted, not recorded
};

// Measures for about a tenth of a second.
absl::StatusOr<JumpCost> MeasureJumpCost();

}  // namespace proftrace
