#include "userspace/capture/cost/job_stack_cost.h"

#include "userspace/base/median.h"

namespace proftrace {

std::optional<double> JobStackCost::median_ns() const {
  if (last_ns_.size() < kFewest) return std::nullopt;
  return static_cast<double>(Median(last_ns_));
}

}  // namespace proftrace
