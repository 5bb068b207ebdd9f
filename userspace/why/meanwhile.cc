// Tells what the waking thread did while the driving thread waited for it: whether it worked, or
// waited itself.
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/stretches.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

using Interval = TimeIntervals::value_type;

// Returns the time off the CPU up to the wake-up, of waits in steps that recorded threads ended, by
// thread.
TimesByThread WaitsByWaker(const Case& job, StepPart part) {
  const ThreadEvents events(job.timeline);
  const ThreadsByNumber threads(job.timeline);
  TimesByThread waits;
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (event.kind != SystemKind::kOffCpu || !job.parts.IsIn(part, event.start_ns)) continue;
    const int64_t end_ns = event.runnable_ns();
    if (end_ns <= event.start_ns) continue;
    const auto waker = threads.Find(event.off_cpu.waker_pid, event.off_cpu.waker_tid);
    if (waker.has_value()) waits[*waker].emplace_back(event.start_ns, end_ns);
  }
  return waits;
}

// The sums of what a thread did in some intervals.
struct Meanwhile {
  int64_t total_ns = 0;
  int64_t run_queue_ns = 0;
  std::array<int64_t, kWaitReasons> waited_ns{};  // by WaitReason

  int64_t Waited(WaitReason reason) const { return waited_ns[static_cast<size_t>(reason)]; }
  int64_t ran_ns() const {
    int64_t ns = total_ns - run_queue_ns;
    for (const int64_t waited : waited_ns) ns -= waited;
    return std::max<int64_t>(0, ns);
  }
};

// Returns the sum of all threads' times.
int64_t TotalOf(const TimesByThread& threads) {
  int64_t ns = 0;
  for (const auto& [thread, times] : threads) ns += LengthOf(times);
  return ns;
}

int64_t Overlap(const Interval& a, int64_t start_ns, int64_t end_ns) {
  return std::max<int64_t>(0, std::min(a.second, end_ns) - std::max(a.first, start_ns));
}

Meanwhile LookAt(const Timeline& timeline, const std::vector<uint32_t>& events,
                 const TimeIntervals& intervals) {
  Meanwhile sums;
  sums.total_ns = LengthOf(intervals);
  size_t at = 0;
  for (const uint32_t index : events) {
    const SystemEvent& event = timeline.system_event(index);
    if (event.kind != SystemKind::kOffCpu) continue;
    while (at < intervals.size() && intervals[at].second <= event.start_ns) ++at;
    const int64_t runnable_ns = event.runnable_ns();
    for (size_t i = at; i < intervals.size() && intervals[i].first < event.end_ns(); ++i) {
      sums.waited_ns[static_cast<size_t>(event.off_cpu.reason)] +=
          Overlap(intervals[i], event.start_ns, runnable_ns);
      sums.run_queue_ns += Overlap(intervals[i], runnable_ns, event.end_ns());
    }
  }
  return sums;
}

// "waited for files or sockets to become ready"
std::string_view WaitedText(WaitReason reason) {
  switch (reason) {
    case WaitReason::kLock:
      return "waited for a lock";
    case WaitReason::kGil:
      return "waited for the GIL";
    case WaitReason::kIo:
      return "was blocked in I/O";
    case WaitReason::kPoll:
      return "waited for files or sockets to become ready";
    case WaitReason::kSleep:
      return "slept";
    case WaitReason::kChild:
      return "waited for a process";
    case WaitReason::kEvent:
      return "waited for another thread itself";
    case WaitReason::kStopped:
      return "was stopped";
    default:
      return "was blocked otherwise";
  }
}

// Returns the recorded process, other than the thread's own, that ended most of the time in which
// the thread waited for files or sockets; nullopt: somebody else did.
std::optional<Pid> RecordedPeer(const Timeline& timeline, const std::vector<uint32_t>& events,
                                Pid own) {
  std::map<uint32_t, int64_t> by_waker;
  int64_t all_ns = 0;
  for (const uint32_t index : events) {
    const SystemEvent& event = timeline.system_event(index);
    if (event.kind != SystemKind::kOffCpu) continue;
    const WaitReason reason = event.off_cpu.reason;
    if (reason != WaitReason::kIo && reason != WaitReason::kPoll) continue;
    all_ns += event.duration_ns;
    by_waker[Raw(event.off_cpu.waker_pid)] += event.duration_ns;
  }
  const auto most = LargestValue(by_waker);
  if (most == by_waker.end() || 2 * most->second < all_ns || Pid{most->first} == own) {
    return std::nullopt;
  }
  const std::vector<Thread>& threads = timeline.threads();
  const bool is_recorded = std::any_of(threads.begin(), threads.end(), [&](const Thread& thread) {
    return Raw(thread.pid) == most->first;
  });
  return is_recorded ? std::optional(Pid{most->first}) : std::nullopt;
}

// Adds how much the thread of a process that worked most in these times worked, and where it was.
void AddPeer(const Case& job, const ThreadEvents& events, Pid peer, const TimeIntervals& times,
             Finding* finding) {
  const std::vector<Thread>& threads = job.timeline.threads();
  std::optional<ThreadIndex> busiest;
  Meanwhile of_busiest;
  for (uint32_t i = 0; i < threads.size(); ++i) {
    // A thread that was never off the CPU has not shown that it was there.
    if (threads[i].pid != peer || events.of(ThreadIndex{i}).empty()) continue;
    const Meanwhile sums = LookAt(job.timeline, events.of(ThreadIndex{i}), times);
    if (busiest.has_value() && sums.ran_ns() <= of_busiest.ran_ns()) continue;
    busiest = ThreadIndex{i};
    of_busiest = sums;
  }
  std::string text = "What came for that thread came from PID " + std::to_string(Raw(peer)) +
                     ", a process of this recording";
  const bool has_worked = busiest.has_value() && 5 * of_busiest.ran_ns() > of_busiest.total_ns;
  if (has_worked) {
    text += ", which worked for " + PercentText(of_busiest.ran_ns(), of_busiest.total_ns) +
            " of that time";
  }
  finding->evidence.push_back(text + ".");
  if (has_worked) AddPlaces(job, {{*busiest, times}}, "That process", finding);
}

// Adds the outermost row of the threads that took most of these times, if it took a fifth of them.
void AddRow(const Case& job, const TimesByThread& threads, Finding* finding) {
  std::map<uint32_t, int64_t> by_label;
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    if (span.parent != kNoSpan || span.is_apart) return;
    const auto thread = threads.find(span.thread);
    if (thread == threads.end()) return;
    const TimeIntervals& times = thread->second;
    auto at = std::lower_bound(
        times.begin(), times.end(), span.start_ns,
        [](const Interval& interval, int64_t time_ns) { return interval.second <= time_ns; });
    for (; at != times.end() && at->first < span.end_ns(); ++at) {
      by_label[Raw(span.label)] += Overlap(*at, span.start_ns, span.end_ns());
    }
  });
  const int64_t all_ns = TotalOf(threads);
  const auto most = LargestValue(by_label);
  if (most == by_label.end() || 5 * most->second < all_ns) return;
  finding->evidence.push_back("Of its rows it was in " +
                              ShownText(job.timeline.label(LabelId{most->first}).name) +
                              " then, for " + PercentText(most->second, all_ns) + " of that time.");
}

// What ended most of the waits of a thread for other threads, and when it waited.
struct NextWaker {
  ThreadIndex thread{};
  TimeIntervals waits;
};

// Returns whom `other` itself waited for in these times; nullopt: nobody who was recorded ended
// half of it.
std::optional<NextWaker> WakerOf(const Case& job, const ThreadEvents& events, ThreadIndex other,
                                 const TimeIntervals& times) {
  std::map<std::pair<uint32_t, uint32_t>, TimeIntervals> by_waker;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> ns_of;
  int64_t all_ns = 0;
  size_t at = 0;  // an index into `times`
  for (const uint32_t index : events.of(other)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (event.kind != SystemKind::kOffCpu || event.off_cpu.reason != WaitReason::kEvent) continue;
    const std::pair waker{Raw(event.off_cpu.waker_pid), Raw(event.off_cpu.waker_tid)};
    const int64_t end_ns = event.runnable_ns();
    while (at < times.size() && times[at].second <= event.start_ns) ++at;
    for (size_t of = at; of < times.size() && times[of].first < end_ns; ++of) {
      const int64_t ns = Overlap(times[of], event.start_ns, end_ns);
      all_ns += ns;
      ns_of[waker] += ns;
      by_waker[waker].emplace_back(std::max(times[of].first, event.start_ns),
                                   std::min(times[of].second, end_ns));
    }
  }
  const auto most = LargestValue(ns_of);
  if (most == ns_of.end() || 2 * most->second < all_ns) return std::nullopt;
  const auto thread =
      ThreadsByNumber(job.timeline).Find(Pid{most->first.first}, Tid{most->first.second});
  if (!thread.has_value() || *thread == job.parts.thread || *thread == other) return std::nullopt;
  return NextWaker{*thread, std::move(by_waker[most->first])};
}

// Adds what the thread that `other` waited for in these times did meanwhile.
void AddNextWaker(const Case& job, const ThreadEvents& events, ThreadIndex other,
                  const TimeIntervals& times, Finding* finding) {
  const std::optional<NextWaker> next = WakerOf(job, events, other, times);
  if (!next.has_value()) return;
  const Meanwhile sums = LookAt(job.timeline, events.of(next->thread), next->waits);
  const std::string who = ThreadPlaceText(job.timeline, next->thread, job.parts.pid);
  finding->evidence.push_back("What it waited for came from " + who + ", which worked for " +
                              PercentText(sums.ran_ns(), sums.total_ns) + " of that time.");
  AddRow(job, {{next->thread, next->waits}}, finding);
  AddPlaces(job, {{next->thread, next->waits}}, "That one", finding);
}

// With fewer threads, the one that ended the longest wait stands for all.
constexpr size_t kFewestOfMany = 4;

// Keeps the threads of one name and process that ended most of the waits, as those that are started
// anew for each step. Empty: they did not end half of them, or are too few.
TimesByThread AlikeWakers(const Case& job, TimesByThread wakers) {
  std::map<std::pair<uint32_t, std::string>, int64_t> ns_of;
  const auto key_of = [&](ThreadIndex index) {
    const Thread& thread = job.timeline.thread(index);
    return std::pair(Raw(thread.pid), thread.name);
  };
  for (const auto& [thread, times] : wakers) ns_of[key_of(thread)] += LengthOf(times);
  const auto most = LargestValue(ns_of);
  if (most == ns_of.end() || 2 * most->second < TotalOf(wakers)) return {};
  std::erase_if(wakers, [&](const auto& waker) { return key_of(waker.first) != most->first; });
  return wakers.size() < kFewestOfMany ? TimesByThread() : wakers;
}

// Adds what threads did that each ended a few of the waits.
void AddMeanwhileOfMany(const Case& job, const TimesByThread& wakers, Finding* finding) {
  const ThreadEvents events(job.timeline);
  int64_t total_ns = 0;
  int64_t ran_ns = 0;
  int64_t lacked_cpu_ns = 0;
  for (const auto& [thread, times] : wakers) {
    const Meanwhile sums = LookAt(job.timeline, events.of(thread), times);
    total_ns += sums.total_ns;
    ran_ns += sums.ran_ns();
    lacked_cpu_ns += sums.run_queue_ns;
  }
  if (!IsWorthTelling(total_ns, finding->ns)) return;
  const std::string& name = job.timeline.thread(wakers.begin()->first).name;
  std::string text = std::to_string(wakers.size()) + " threads" +
                     (name.empty() ? "" : " named " + ShownText(name)) +
                     " ended these waits in turn, and worked for " + PercentText(ran_ns, total_ns) +
                     " of that time";
  if (IsWorthTelling(lacked_cpu_ns, total_ns)) {
    text += ", and had no CPU for " + PercentText(lacked_cpu_ns, total_ns);
  }
  finding->evidence.push_back(text + ".");
  AddRow(job, wakers, finding);
  AddPlaces(job, wakers, "Such a thread", finding);
}

}  // namespace

bool AddMeanwhile(const Case& job, StepPart part, const WaitSum* longest, Finding* finding) {
  if (longest == nullptr) return false;
  const TimesByThread wakers = WaitsByWaker(job, part);
  const auto waker = longest->waker_is_known ? wakers.find(longest->waker_thread) : wakers.end();
  const int64_t its_ns = waker == wakers.end() ? 0 : LengthOf(waker->second);
  if (2 * its_ns < TotalOf(wakers)) {
    const TimesByThread many = AlikeWakers(job, wakers);
    if (!many.empty()) {
      AddMeanwhileOfMany(job, many, finding);
      return false;
    }
  }
  return waker != wakers.end() && AddMeanwhile(job, waker->second, waker->first, finding);
}

bool AddMeanwhile(const Case& job, const TimeIntervals& waits, ThreadIndex other,
                  Finding* finding) {
  const ThreadEvents events(job.timeline);
  const Meanwhile sums = LookAt(job.timeline, events.of(other), waits);
  if (!IsWorthTelling(sums.total_ns, finding->ns)) return false;
  const auto longest = std::max_element(sums.waited_ns.begin(), sums.waited_ns.end());
  const auto reason = static_cast<WaitReason>(longest - sums.waited_ns.begin());
  std::string text = "Meanwhile that thread worked for " +
                     PercentText(sums.ran_ns(), sums.total_ns) + " of the time";
  const bool lacked_cpu = IsWorthTelling(sums.run_queue_ns, sums.total_ns);
  if (IsWorthTelling(*longest, sums.total_ns) && reason != WaitReason::kPreempted) {
    text += (lacked_cpu ? ", " : ", and ") + std::string(WaitedText(reason)) + " for " +
            PercentText(*longest, sums.total_ns);
  }
  if (lacked_cpu) text += ", and had no CPU for " + PercentText(sums.run_queue_ns, sums.total_ns);
  finding->evidence.push_back(text + ".");
  if (reason == WaitReason::kEvent && 2 * *longest > sums.total_ns) {
    AddNextWaker(job, events, other, waits, finding);
    return false;
  }
  AddRow(job, {{other, waits}}, finding);
  AddPlaces(job, {{other, waits}}, "That thread", finding);
  if (2 * (sums.Waited(WaitReason::kPoll) + sums.Waited(WaitReason::kIo)) <= sums.total_ns) {
    return false;
  }
  const std::optional<Pid> peer =
      RecordedPeer(job.timeline, events.of(other), job.timeline.thread(other).pid);
  if (!peer.has_value()) return true;  // who asks from outside could not be made faster in this job
  AddPeer(job, events, *peer, waits, finding);
  return false;
}

}  // namespace proftrace
