// The driving thread's waits by the place where it waited, and its events in a part of the steps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "userspace/aggregate/thread_events.h"
#include "userspace/why/case.h"

namespace proftrace {

// The waits at one place, whichever thread ended them.
struct PlaceWaits {
  int64_t blocked_ns = 0;
  int64_t longest_ns = 0;
  uint64_t count = 0;
  const WaitSum* largest = nullptr;
};

// Returns the place where the thread waited longest, among the waits for which `is_asked` is true;
// PlaceWaits::largest is null where there are none.
PlaceWaits LongestPlace(const Case& job, const std::function<bool(const WaitSum&)>& is_asked);

// Returns "It waited 12 times for 1.20 s at aten::mm, 110 ms at the longest", without a point.
// WakerText() ends the sentence.
std::string WaiterText(const Case& job, const PlaceWaits& waits);
// Returns "; what ended that was thread python (TID 7)." or ".", where no thread is known.
std::string WakerText(const Case& job, const PlaceWaits& waits);

// Visits the events of the driving thread that begin in `part`.
template <typename Visitor>
void ForEachEventIn(const Case& job, StepPart part, Visitor&& visit) {
  const ThreadEvents events(job.timeline);
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (job.parts.IsIn(part, event.start_ns)) visit(event);
  }
}

}  // namespace proftrace
