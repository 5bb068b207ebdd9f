#include "userspace/merge/event_sorter.h"

#include <algorithm>

namespace proftrace {
namespace {

bool IsEarlier(const Event& a, const Event& b) { return a.time_ns < b.time_ns; }

}  // namespace

size_t EventSorter::SortAndCount(bool flush) {
  if (buffer_.empty()) return 0;
  const auto unsorted =
      std::is_sorted_until(buffer_.begin() + static_cast<ptrdiff_t>(sorted_ > 0 ? sorted_ - 1 : 0),
                           buffer_.end(), IsEarlier);
  if (unsorted != buffer_.end()) std::stable_sort(buffer_.begin(), buffer_.end(), IsEarlier);
  for (Event& event : buffer_) {
    if (event.time_ns >= drained_ns_) break;
    event.time_ns = drained_ns_;
    ++ledger_->late;
  }
  const int64_t newest = buffer_.back().time_ns;
  size_t ready = buffer_.size();
  if (!flush) {
    const int64_t limit = newest - kWindowNs;
    ready = static_cast<size_t>(
        std::partition_point(buffer_.begin(), buffer_.end(),
                             [limit](const Event& event) { return event.time_ns <= limit; }) -
        buffer_.begin());
  }
  if (ready > 0) drained_ns_ = std::max(drained_ns_, buffer_[ready - 1].time_ns);
  return ready;
}

}  // namespace proftrace
