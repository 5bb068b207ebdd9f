#include "userspace/aggregate/thread_uses.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "userspace/aggregate/io_roles.h"

namespace proftrace {
namespace {

TimeUse UseOf(const SystemEvent& event) {
  if (event.kind == SystemKind::kFault) return TimeUse::kFaults;
  return IsIo(event) ? TimeUse::kIo : TimeUse::kOther;
}

// Returns what time off the CPU was spent on, where it was not spent in the run queue.
TimeUse UseOfBlocked(WaitReason reason) {
  switch (reason) {
    case WaitReason::kPreempted:
    case WaitReason::kNew:
      return TimeUse::kRunQueue;
    case WaitReason::kLock:
    case WaitReason::kGil:
      return TimeUse::kLock;
    case WaitReason::kEvent:
      return TimeUse::kEvent;
    case WaitReason::kIo:
      return TimeUse::kIo;
    case WaitReason::kFault:
      return TimeUse::kFaults;
    default:
      return TimeUse::kOther;
  }
}

class Painter {
 public:
  // Replaces earlier uses in the time of this one. Events must come in the order of their start,
  // outer ones first.
  void Paint(const TimedUse& use) {
    if (use.end_ns <= use.start_ns) return;
    size_t at = uses_.size();
    while (at > 0 && uses_[at - 1].end_ns > use.start_ns) --at;
    std::vector<TimedUse> after;
    for (size_t i = at; i < uses_.size(); ++i) {
      if (uses_[i].start_ns >= use.start_ns) continue;
      after.push_back(uses_[i]);
      after.back().end_ns = use.start_ns;
    }
    after.push_back(use);
    for (size_t i = at; i < uses_.size(); ++i) {
      if (uses_[i].end_ns <= use.end_ns) continue;
      after.push_back(uses_[i]);
      after.back().start_ns = std::max(uses_[i].start_ns, use.end_ns);
    }
    uses_.resize(at);
    uses_.insert(uses_.end(), after.begin(), after.end());
  }

  std::vector<TimedUse> Take() { return std::move(uses_); }

 private:
  std::vector<TimedUse> uses_;
};

}  // namespace

std::vector<TimedUse> UsesOfThread(const Timeline& timeline, const ThreadEvents& events,
                                   ThreadIndex thread) {
  Painter painter;
  for (const uint32_t index : events.of(thread)) {
    const SystemEvent& event = timeline.system_event(index);
    TimedUse whole{event.start_ns, event.end_ns(), TimeUse::kOther, false, event.span};
    if (event.kind != SystemKind::kOffCpu) {
      whole.use = UseOf(event);
      painter.Paint(whole);
      continue;
    }
    TimedUse blocked = whole;
    blocked.end_ns -= event.off_cpu.run_queue_ns;
    blocked.use = UseOfBlocked(event.off_cpu.reason);
    blocked.is_blocked = blocked.use != TimeUse::kRunQueue;
    // A wait in a read is part of the read, whatever the thread waits for.
    const SystemEvent* call = CallAround(timeline, event);
    if (blocked.use == TimeUse::kOther && call != nullptr && IsIo(*call)) {
      blocked.use = TimeUse::kIo;
    }
    painter.Paint(blocked);
    whole.start_ns = blocked.end_ns;
    whole.use = TimeUse::kRunQueue;
    painter.Paint(whole);
  }
  return painter.Take();
}

}  // namespace proftrace
