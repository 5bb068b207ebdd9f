// Finds what the kernel did for a thread at each moment, or what the thread waited for.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/thread_events.h"
#include "userspace/aggregate/time_breakdown.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// One use of a thread's time. Where one event lies in another, the innermost counts: a wait in a
// read is a wait, and the rest of the read is I/O.
struct TimedUse {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  TimeUse use = TimeUse::kOther;  // never kCompute or kData
  bool is_blocked = false;        // off the CPU, and it could not run
  SpanId span = kNoSpan;          // the span that it lies in
};

// Returns the uses in order, without overlaps. In the gaps between them the thread computed, or
// nothing is known.
std::vector<TimedUse> UsesOfThread(const Timeline& timeline, const ThreadEvents& events,
                                   ThreadIndex thread);

}  // namespace proftrace
