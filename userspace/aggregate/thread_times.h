// Sums up what each thread of a recording did in a stretch of time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "userspace/aggregate/time_breakdown.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct ThreadTimes {
  ThreadIndex thread{};
  int64_t rows_ns = 0;  // in rows at the top level: operators and annotations
  // The uses of the thread's time as in TimeBreakdown; zeros where the scheduler was not recorded
  // whole. Time before the thread's first event and after its last one does not count as computing,
  // because nothing is known about it.
  TimeUses uses{};
};

// Returns the threads with any time in `stretch` (CLOCK_MONOTONIC, without its end), in the order
// of the timeline. Passes over the spans and the system events.
std::vector<ThreadTimes> SumThreads(const Timeline& timeline,
                                    const std::pair<int64_t, int64_t>& stretch);

}  // namespace proftrace
