#include "userspace/capture/cost/live_meter.h"

namespace proftrace {

LiveMeter::Hits LiveMeter::HitsOf(uint32_t tid) const {
  const auto it = threads_.find(tid);
  return it == threads_.end() ? Hits() : it->second;
}

LiveMeter::Hits LiveMeter::busiest_thread() const {
  Hits most = busiest_ended_;
  for (const auto& [tid, hits] : threads_) {
    if (hits.all() > most.all()) most = hits;
  }
  return most;
}

}  // namespace proftrace
