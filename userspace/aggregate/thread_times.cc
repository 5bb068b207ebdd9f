#include "userspace/aggregate/thread_times.h"

#include <algorithm>
#include <numeric>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/aggregate/thread_uses.h"

namespace proftrace {
namespace {

using Stretch = std::pair<int64_t, int64_t>;

// Returns how much of the time from `start_ns` to `end_ns` lies in the stretch.
int64_t PartIn(const Stretch& stretch, int64_t start_ns, int64_t end_ns) {
  return std::max<int64_t>(0, std::min(stretch.second, end_ns) - std::max(stretch.first, start_ns));
}

// The time of a thread about which anything is known.
class Known {
 public:
  void Add(int64_t start_ns, int64_t end_ns) {
    first_ns_ = std::min(first_ns_, start_ns);
    last_ns_ = std::max(last_ns_, end_ns);
  }
  int64_t NsIn(const Stretch& stretch) const { return PartIn(stretch, first_ns_, last_ns_); }

 private:
  int64_t first_ns_ = INT64_MAX;
  int64_t last_ns_ = INT64_MIN;
};

void AddRows(const Timeline& timeline, const Stretch& stretch, std::vector<ThreadTimes>* times,
             std::vector<Known>* known) {
  ForEachSpan(timeline, [&](SpanId, const Span& span) {
    if (span.parent != kNoSpan || span.is_apart) return;
    const uint32_t thread = Raw(span.thread);
    (*times)[thread].rows_ns += PartIn(stretch, span.start_ns, span.end_ns());
    (*known)[thread].Add(span.start_ns, span.end_ns());
  });
}

void AddUses(const Timeline& timeline, const Stretch& stretch, std::vector<ThreadTimes>* times,
             std::vector<Known>* known) {
  const ThreadEvents events(timeline);
  const DataLoaderRows loader(timeline);
  for (uint32_t thread = 0; thread < times->size(); ++thread) {
    TimeUses& uses = (*times)[thread].uses;
    for (const TimedUse& use : UsesOfThread(timeline, events, ThreadIndex{thread})) {
      const bool is_data = use.is_blocked && loader.IsIn(use.span);
      const TimeUse what = is_data ? TimeUse::kData : use.use;
      uses[static_cast<size_t>(what)] += PartIn(stretch, use.start_ns, use.end_ns);
      (*known)[thread].Add(use.start_ns, use.end_ns);
    }
    const int64_t others_ns = std::accumulate(uses.begin(), uses.end(), int64_t{0});
    uses[static_cast<size_t>(TimeUse::kCompute)] =
        std::max<int64_t>(0, (*known)[thread].NsIn(stretch) - others_ns);
  }
}

}  // namespace

std::vector<ThreadTimes> SumThreads(const Timeline& timeline, const Stretch& stretch) {
  std::vector<ThreadTimes> times(timeline.threads().size());
  std::vector<Known> known(times.size());
  for (uint32_t i = 0; i < times.size(); ++i) times[i].thread = ThreadIndex{i};
  AddRows(timeline, stretch, &times, &known);
  if (IsSchedulerWhole(timeline)) AddUses(timeline, stretch, &times, &known);
  std::erase_if(times, [&](const ThreadTimes& of_thread) {
    return known[Raw(of_thread.thread)].NsIn(stretch) == 0 && of_thread.rows_ns == 0;
  });
  return times;
}

}  // namespace proftrace
