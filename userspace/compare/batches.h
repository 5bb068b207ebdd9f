// The steps of a recording in stretches, which tell how much a mean of all steps varies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "userspace/compare/run_profile.h"

namespace proftrace {

// Divides the steps into stretches of consecutive steps (batches).
class Batches {
 public:
  explicit Batches(size_t steps) : steps_(steps) {
    if (steps < StepTime::kFewestBatches) {
      sizes_ = {std::max<size_t>(steps, 1)};
      return;
    }
    sizes_.resize(std::min(StepTime::kMostBatches, steps));
    for (size_t step = 0; step < steps; ++step) ++sizes_[Of(step)];
  }

  size_t steps() const { return steps_; }
  size_t count() const { return sizes_.size(); }
  size_t Of(size_t step) const {
    return steps_ < StepTime::kFewestBatches ? 0 : step * sizes_.size() / steps_;
  }

  // Returns the mean per step and its error, from the sums of each batch.
  StepTime Mean(const std::vector<int64_t>& sums) const {
    StepTime time;
    double all_ns = 0;
    for (const int64_t ns : sums) all_ns += static_cast<double>(ns);
    time.mean_ns = all_ns / static_cast<double>(std::max<size_t>(steps_, 1));
    const auto n = static_cast<double>(count());
    if (count() < StepTime::kFewestBatches) return time;
    double squares = 0;
    for (size_t batch = 0; batch < count(); ++batch) {
      const double off_ns =
          static_cast<double>(sums[batch]) / static_cast<double>(sizes_[batch]) - time.mean_ns;
      squares += off_ns * off_ns;
    }
    time.error_ns = std::sqrt(squares / (n - 1) / n);
    return time;
  }

 private:
  size_t steps_;
  std::vector<size_t> sizes_;  // in steps
};

}  // namespace proftrace
