#include "userspace/capture/job_stack_cost.h"

#include <algorithm>

namespace proftrace {

std::optional<double> JobStackCost::median_ns() const {
  if (last_ns_.size() < kFewest) return std::nullopt;
  std::vector<uint64_t> sorted = last_ns_;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return static_cast<double>(*middle);
}

}  // namespace proftrace
