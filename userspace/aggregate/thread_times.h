// Tells what each thread of a recording did with a stretch of time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "userspace/aggregate/time_breakdown.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct ThreadTimes {
  ThreadIndex thread{};
  int64_t rows_ns = 0;  // in rows: operators, annotations, what has no row around it
  // As TimeBreakdown has them; zeros where the scheduler was not recorded whole. A thread computes
  // from its first event to its last at most: nothing is known of the time around these.
  TimeUses uses{};
};

// Returns the threads that have anything in `stretch` (CLOCK_MONOTONIC, its end not in it), in the
// order of the timeline. Passes over the spans and the system events.
std::vector<ThreadTimes> SumThreads(const Timeline& timeline,
                                    const std::pair<int64_t, int64_t>& stretch);

}  // namespace proftrace
