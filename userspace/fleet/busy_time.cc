#include "userspace/fleet/busy_time.h"

#include <algorithm>

namespace proftrace {

void BusyTime::Add(int64_t begin_ns, int64_t end_ns) {
  stretches_.emplace_back(begin_ns, end_ns);
  if (stretches_.size() >= 2 * most_) Shrink();
}

std::vector<BusyTime::Stretch> BusyTime::Take() {
  std::sort(stretches_.begin(), stretches_.end());
  Join(closed_gap_ns_);
  return std::exchange(stretches_, {});
}

// Joins stretches in order: one that is no farther than `gap_ns` from the one before becomes part
// of it.
void BusyTime::Join(int64_t gap_ns) {
  size_t last = 0;
  for (size_t at = 1; at < stretches_.size(); ++at) {
    if (stretches_[at].first - stretches_[last].second <= gap_ns) {
      stretches_[last].second = std::max(stretches_[last].second, stretches_[at].second);
    } else {
      stretches_[++last] = stretches_[at];
    }
  }
  if (!stretches_.empty()) stretches_.resize(last + 1);
}

void BusyTime::Shrink() {
  std::sort(stretches_.begin(), stretches_.end());
  Join(closed_gap_ns_);
  while (stretches_.size() > most_) {
    closed_gap_ns_ = std::max<int64_t>(1000, closed_gap_ns_ * 2);
    Join(closed_gap_ns_);
  }
}

}  // namespace proftrace
