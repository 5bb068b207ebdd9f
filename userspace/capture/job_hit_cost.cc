#include "userspace/capture/job_hit_cost.h"

#include <algorithm>

namespace proftrace {

void JobHitCost::Observe(const abi::pt_record& record) {
  Begin& last = last_[record.tid];
  if (record.kind == abi::PT_SPAN_BEGIN) {
    last = Begin{record.time_ns, record.site, true};
  } else {
    // Site 0: behind each begin that is at a call of the function which that probe is in.
    const bool is_pair = record.kind == abi::PT_COST && last.is_open &&
                         (record.site == 0 || last.site == record.site);
    if (is_pair && gaps_ns_.size() < kEnoughPairs) {
      gaps_ns_.push_back(record.time_ns - last.time_ns);
    }
    last = Begin{};
  }
}

std::optional<double> JobHitCost::median_ns() {
  if (gaps_ns_.size() < kFewestPairs) return std::nullopt;
  const auto middle = gaps_ns_.begin() + static_cast<ptrdiff_t>(gaps_ns_.size() / 2);
  std::nth_element(gaps_ns_.begin(), middle, gaps_ns_.end());
  return static_cast<double>(*middle);
}

}  // namespace proftrace
