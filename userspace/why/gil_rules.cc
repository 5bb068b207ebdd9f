// The rule about the lock of Python's interpreter (the GIL): how long the driving thread waited for
// it, and which thread held it then.
//
// A wait for the GIL is known by the address at which the thread sleeps (WaitReason::kGil), not by
// its length. CPython waits for the switch interval (5 ms), asks the holder to give the lock up,
// and waits again; whoever gives it up wakes a thread that waits:
//
//   waits 5 ms, woken by a clock | waits 0.2 ms, woken by thread B |   B held it in both
//
// So a wait that another thread ended was for that thread, and so were the waits right before that
// a clock ended.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

// Between two waits of one try the thread only looks at the lock.
constexpr int64_t kSameTryNs = 500'000;

struct Holder {
  int64_t ns = 0;
  uint64_t waits = 0;
  TimeIntervals intervals;
};

struct GilWaits {
  int64_t ns = 0;
  int64_t longest_ns = 0;
  uint64_t count = 0;
  std::map<uint32_t, Holder> holders;  // by ThreadIndex
};

// Returns the thread that ended the wait; nullopt: a clock ended it. The clock's interrupt may have
// hit a process that has nothing to do with the wait.
std::optional<ThreadIndex> WakerOf(const Case& job, const ThreadsByNumber& threads,
                                   const SystemEvent& wait) {
  if (Raw(wait.off_cpu.waker_tid) == 0 || wait.off_cpu.waker_pid != job.parts.pid) {
    return std::nullopt;
  }
  return threads.Find(wait.off_cpu.waker_pid, wait.off_cpu.waker_tid);
}

// Adds the time until the wake-up, as far as it belongs to the part of waits for locks.
void AddWaitingTime(const Case& job, const SystemEvent& wait, GilWaits* waits,
                    TimeIntervals* intervals) {
  const int64_t end_ns = wait.runnable_ns();
  const std::vector<PartMoment>& moments = job.parts.moments;
  auto at = std::lower_bound(
      moments.begin(), moments.end(), wait.start_ns,
      [](const PartMoment& moment, int64_t time_ns) { return moment.end_ns <= time_ns; });
  int64_t ns = 0;
  for (; at != moments.end() && at->start_ns < end_ns; ++at) {
    if (at->part != StepPart::kLock) continue;
    const int64_t from_ns = std::max(at->start_ns, wait.start_ns);
    const int64_t to_ns = std::min(at->end_ns, end_ns);
    if (to_ns <= from_ns) continue;
    intervals->emplace_back(from_ns, to_ns);
    ns += to_ns - from_ns;
  }
  if (ns == 0) return;
  waits->ns += ns;
  waits->longest_ns = std::max(waits->longest_ns, ns);
  ++waits->count;
}

GilWaits WaitsForGil(const Case& job) {
  const ThreadEvents events(job.timeline);
  const ThreadsByNumber threads(job.timeline);
  GilWaits waits;
  TimeIntervals pending;  // of waits that a clock ended
  int64_t pending_until_ns = 0;
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (event.kind != SystemKind::kOffCpu || event.off_cpu.reason != WaitReason::kGil) continue;
    if (event.start_ns > pending_until_ns + kSameTryNs) pending.clear();
    AddWaitingTime(job, event, &waits, &pending);
    pending_until_ns = event.end_ns();
    const std::optional<ThreadIndex> waker = WakerOf(job, threads, event);
    if (!waker.has_value() || *waker == job.parts.thread) continue;
    Holder& holder = waits.holders[Raw(*waker)];
    for (const auto& [from_ns, to_ns] : pending) holder.ns += to_ns - from_ns;
    ++holder.waits;
    holder.intervals.insert(holder.intervals.end(), pending.begin(), pending.end());
    pending.clear();
  }
  return waits;
}

void TellHolder(const Case& job, const GilWaits& waits, Finding* finding) {
  const auto most =
      std::max_element(waits.holders.begin(), waits.holders.end(),
                       [](const auto& a, const auto& b) { return a.second.ns < b.second.ns; });
  if (most == waits.holders.end() || 5 * most->second.ns < waits.ns) {
    finding->evidence.emplace_back("Which thread held it is not known.");
    return;
  }
  const ThreadIndex thread{most->first};
  const Holder& holder = most->second;
  std::string text = ThreadPlaceText(job.timeline, thread, job.parts.pid) + " held it for " +
                     PercentText(holder.ns, waits.ns) + " of that time";
  text[0] = 'T';
  if (waits.holders.size() > 1) {
    text +=
        ", " + CountText(waits.holders.size() - 1, "other thread", "other threads") + " for less";
  }
  finding->evidence.push_back(text + ".");
  AddMeanwhile(job, holder.intervals, thread, finding);
  if (job.timeline.samples().empty()) finding->next = "--sample 99Hz";
}

}  // namespace

std::optional<Finding> FindGil(const Case& job, PartTimes* taken) {
  if (!job.parts.has_kernel) return std::nullopt;
  const GilWaits waits = WaitsForGil(job);
  if (waits.ns == 0) return std::nullopt;
  Finding finding;
  finding.kind = FindingKind::kGil;
  finding.ns = waits.ns;
  (*taken)[static_cast<size_t>(StepPart::kLock)] = waits.ns;
  finding.what = DriverText(job) + " waits for Python's interpreter lock (GIL)";
  finding.evidence.push_back("It waited " + CountText(waits.count, "time", "times") + " for " +
                             DurationText(waits.ns) + ", " + DurationText(waits.longest_ns) +
                             " at the longest.");
  TellHolder(job, waits, &finding);
  finding.evidence.emplace_back(
      "Python runs one thread at a time: the same work in another process, or in calls that give "
      "the lock up, would not hold this thread up.");
  return finding;
}

}  // namespace proftrace
