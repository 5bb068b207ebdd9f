#include "userspace/capture/live_meter.h"

namespace proftrace {

LiveMeter::Hits LiveMeter::busiest_thread() const {
  Hits most;
  for (const auto& [tid, hits] : threads_) {
    if (hits.hits > most.hits) most = hits;
  }
  return most;
}

}  // namespace proftrace
