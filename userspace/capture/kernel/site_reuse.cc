#include "userspace/capture/kernel/site_reuse.h"

#include <algorithm>
#include <cmath>

namespace proftrace {

void SiteReuse::Observe(const abi::pt_record& head) {
  if (in_burst_ >= kBurst) {
    if (seen_ > 0 && head.time_ns < begin_ns_ + kBetweenNs) return;
    last_.clear();
    hits_.clear();
    begin_ns_ = head.time_ns;
    in_burst_ = 0;
  }
  ++in_burst_;
  const uint64_t key = uint64_t{head.tid} << 32 | uint64_t{head.site} << 8 | head.kind;
  const uint64_t hits = ++hits_[head.tid];
  const auto [last, is_first] = last_.try_emplace(key, Use{begin_ns_, 0});
  // A place that was not seen before was not used since the burst began.
  const auto passed_ns =
      static_cast<double>(head.time_ns - std::min(last->second.time_ns, head.time_ns));
  const double gap_ns =
      std::max(1.0, passed_ns - static_cast<double>(hits - last->second.hits) * ns_per_hit_);
  last->second = {head.time_ns, hits};
  if (is_first && gap_ns < kColdNs) return;
  sum_ += std::clamp(std::log(gap_ns / kWarmNs) / std::log(kColdNs / kWarmNs), 0.0, 1.0);
  ++seen_;
}

std::optional<double> SiteReuse::coldness() const {
  if (seen_ < kFewest) return std::nullopt;
  return sum_ / static_cast<double>(seen_);
}

}  // namespace proftrace
