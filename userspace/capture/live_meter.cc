#include "userspace/capture/live_meter.h"

#include <algorithm>

namespace proftrace {

uint64_t LiveMeter::busiest_thread_hits() const {
  uint64_t most = 0;
  for (const auto& [tid, hits] : hits_by_thread_) most = std::max(most, hits);
  return most;
}

}  // namespace proftrace
