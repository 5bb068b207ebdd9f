#include "userspace/aggregate/time_breakdown.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "userspace/aggregate/thread_events.h"

namespace proftrace {
namespace {

using Interval = std::pair<int64_t, int64_t>;

// Of the part of time off the CPU that is not spent in the run queue.
TimeUse UseOfBlocked(const Timeline& timeline, const SystemEvent& event) {
  const WaitReason reason = event.off_cpu.reason;
  if (reason == WaitReason::kPreempted || reason == WaitReason::kNew) return TimeUse::kRunQueue;
  if (IsInDataLoader(timeline, event.span)) return TimeUse::kData;
  switch (reason) {
    case WaitReason::kIo:
      return TimeUse::kIo;
    case WaitReason::kLock:
      return TimeUse::kLock;
    case WaitReason::kFault:
      return TimeUse::kFaults;
    default:
      return TimeUse::kOther;
  }
}

class Breaker {
 public:
  Breaker(const Timeline& timeline, std::vector<Interval> intervals)
      : timeline_(timeline), intervals_(std::move(intervals)), uses_(intervals_.size()) {
    for (size_t i = 0; i < intervals_.size(); ++i) {
      uses_[i][static_cast<size_t>(TimeUse::kCompute)] = intervals_[i].second - intervals_[i].first;
    }
  }

  void Add(const SystemEvent& event) {
    const TimeUse around = event.around == kNoSystemEvent
                               ? TimeUse::kCompute
                               : UseOf(timeline_.system_event(event.around));
    if (event.kind != SystemKind::kOffCpu) {
      Move({event.start_ns, event.end_ns()}, around, UseOf(event));
      return;
    }
    const int64_t runnable_ns = event.end_ns() - event.off_cpu.run_queue_ns;
    TimeUse blocked = UseOfBlocked(timeline_, event);
    // A wait in a read is part of it, whatever is waited for.
    if (blocked == TimeUse::kOther && around == TimeUse::kIo) blocked = TimeUse::kIo;
    Move({event.start_ns, runnable_ns}, around, blocked);
    Move({runnable_ns, event.end_ns()}, around, TimeUse::kRunQueue);
  }

  std::vector<TimeUses> TakeUses() { return std::move(uses_); }

 private:
  static TimeUse UseOf(const SystemEvent& event) {
    if (event.kind == SystemKind::kFault) return TimeUse::kFaults;
    return IsIoCall(event) ? TimeUse::kIo : TimeUse::kOther;
  }

  // The time was counted as what is around it.
  void Move(const Interval& part, TimeUse from, TimeUse to) {
    auto at = std::upper_bound(
        intervals_.begin(), intervals_.end(), part.first,
        [](int64_t time_ns, const Interval& interval) { return time_ns < interval.second; });
    for (; at != intervals_.end() && at->first < part.second; ++at) {
      const int64_t ns = std::min(part.second, at->second) - std::max(part.first, at->first);
      if (ns <= 0) continue;
      TimeUses& uses = uses_[static_cast<size_t>(at - intervals_.begin())];
      uses[static_cast<size_t>(from)] -= ns;
      uses[static_cast<size_t>(to)] += ns;
    }
  }

  const Timeline& timeline_;
  std::vector<Interval> intervals_;  // in order, without overlaps
  std::vector<TimeUses> uses_;
};

// The first thread of the first process that has one here.
std::optional<ThreadIndex> MainThread(const Timeline& timeline) {
  for (const Target& target : timeline.info().targets) {
    for (uint32_t i = 0; i < timeline.threads().size(); ++i) {
      const Thread& thread = timeline.thread(ThreadIndex{i});
      if (thread.pid == target.pid && Raw(thread.tid) == Raw(target.pid)) return ThreadIndex{i};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view TimeUseName(TimeUse use) {
  static constexpr std::array<std::string_view, kTimeUses> kNames = {
      "compute", "data", "io", "lock", "run_queue", "faults", "other"};
  return kNames[static_cast<size_t>(use)];
}

std::optional<TimeBreakdown> BreakTimeDown(const Timeline& timeline, const Steps& steps) {
  if (!timeline.has_sched() || timeline.ledger().system_lost > 0 || !timeline.info().has_end) {
    return std::nullopt;
  }
  TimeBreakdown result;
  std::vector<Interval> intervals;
  if (steps.main.has_value()) {
    const ProcessSteps& process = steps.processes[*steps.main];
    result.thread = process.thread;
    for (const Step& step : process.steps) intervals.emplace_back(step.start_ns, step.end_ns);
  } else {
    const std::optional<ThreadIndex> thread = MainThread(timeline);
    if (!thread.has_value()) return std::nullopt;
    result.thread = *thread;
    const Window& window = timeline.info().window;
    intervals.emplace_back(window.start_ns, window.start_ns + window.duration_ns);
  }
  Breaker breaker(timeline, std::move(intervals));
  for (uint32_t i = 0; i < timeline.system_event_count(); ++i) {
    const SystemEvent& event = timeline.system_event(i);
    if (event.thread == result.thread && event.kind != SystemKind::kRequest) breaker.Add(event);
  }
  result.steps = breaker.TakeUses();
  for (const TimeUses& uses : result.steps) {
    for (size_t i = 0; i < kTimeUses; ++i) {
      result.uses[i] += uses[i];
      result.total_ns += uses[i];
    }
  }
  if (!steps.main.has_value()) result.steps.clear();
  return result;
}

}  // namespace proftrace
