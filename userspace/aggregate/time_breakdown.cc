#include "userspace/aggregate/time_breakdown.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "userspace/aggregate/thread_events.h"
#include "userspace/aggregate/thread_uses.h"

namespace proftrace {
namespace {

using Interval = std::pair<int64_t, int64_t>;

class Breaker {
 public:
  Breaker(const Timeline& timeline, std::vector<Interval> intervals)
      : loader_(timeline), intervals_(std::move(intervals)), uses_(intervals_.size()) {
    for (size_t i = 0; i < intervals_.size(); ++i) {
      uses_[i][static_cast<size_t>(TimeUse::kCompute)] = intervals_[i].second - intervals_[i].first;
    }
  }

  // Adds a use. Until now its time counted as computing.
  void Add(const TimedUse& part) {
    const bool is_data = part.is_blocked && loader_.IsIn(part.span);
    const TimeUse use = is_data ? TimeUse::kData : part.use;
    auto at = std::upper_bound(
        intervals_.begin(), intervals_.end(), part.start_ns,
        [](int64_t time_ns, const Interval& interval) { return time_ns < interval.second; });
    for (; at != intervals_.end() && at->first < part.end_ns; ++at) {
      const int64_t ns = std::min(part.end_ns, at->second) - std::max(part.start_ns, at->first);
      TimeUses& uses = uses_[static_cast<size_t>(at - intervals_.begin())];
      uses[static_cast<size_t>(TimeUse::kCompute)] -= ns;
      uses[static_cast<size_t>(use)] += ns;
    }
  }

  std::vector<TimeUses> TakeUses() { return std::move(uses_); }

 private:
  DataLoaderRows loader_;
  std::vector<Interval> intervals_;  // in order, without overlaps
  std::vector<TimeUses> uses_;
};

}  // namespace

bool IsSchedulerWhole(const Timeline& timeline) {
  return timeline.has_sched() && timeline.ledger().system_lost == 0 && timeline.info().has_end;
}

std::optional<ThreadIndex> FindMainThread(const Timeline& timeline) {
  for (const Target& target : timeline.info().targets) {
    for (uint32_t i = 0; i < timeline.threads().size(); ++i) {
      const Thread& thread = timeline.thread(ThreadIndex{i});
      if (thread.pid == target.pid && Raw(thread.tid) == Raw(target.pid)) return ThreadIndex{i};
    }
  }
  return std::nullopt;
}

std::string_view TimeUseName(TimeUse use) {
  static constexpr std::array<std::string_view, kTimeUses> kNames = {
      "compute", "data", "io", "lock", "event", "run_queue", "faults", "other"};
  return kNames[static_cast<size_t>(use)];
}

std::optional<TimeBreakdown> BreakTimeDown(const Timeline& timeline, const Steps& steps) {
  if (!IsSchedulerWhole(timeline)) return std::nullopt;
  TimeBreakdown result;
  std::vector<Interval> intervals;
  if (steps.main.has_value()) {
    const ProcessSteps& process = steps.processes[*steps.main];
    result.thread = process.thread;
    for (const Step& step : process.timed_steps()) {
      intervals.emplace_back(step.start_ns, step.end_ns);
    }
  } else {
    const std::optional<ThreadIndex> thread = FindMainThread(timeline);
    if (!thread.has_value()) return std::nullopt;
    result.thread = *thread;
    const Window& window = timeline.info().window;
    intervals.emplace_back(window.start_ns, window.start_ns + window.duration_ns);
  }
  Breaker breaker(timeline, std::move(intervals));
  const ThreadEvents events(timeline);
  for (const TimedUse& use : UsesOfThread(timeline, events, result.thread)) breaker.Add(use);
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
