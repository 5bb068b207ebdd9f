// Rules about the driving thread's waits: for locks, for other threads and processes, and for time.
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/aggregate/system_text.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/text.h"
#include "userspace/model/system_calls.h"
#include "userspace/why/rules.h"
#include "userspace/why/wait_places.h"

namespace proftrace {
namespace {

bool IsOf(const WaitSum& wait, StepPart part) {
  switch (wait.reason) {
    case WaitReason::kLock:
      return part == StepPart::kLock;
    case WaitReason::kEvent:
      return part == StepPart::kEvent;
    case WaitReason::kSleep:
    case WaitReason::kPoll:
    case WaitReason::kChild:
    case WaitReason::kSignal:
    case WaitReason::kStopped:
    case WaitReason::kOther:
      return part == StepPart::kOther;
    default:
      return false;
  }
}

// Adds the place where the thread waited longest in a part to the evidence; with `reason`, of its
// waits for that reason. Returns the largest of its waits; nullptr: there are no waits.
const WaitSum* AddWaits(const Case& job, StepPart part, Finding* finding,
                        std::optional<WaitReason> reason = std::nullopt) {
  const PlaceWaits waits = LongestPlace(job, [part, reason](const WaitSum& wait) {
    return reason.has_value() ? wait.reason == *reason : IsOf(wait, part);
  });
  if (waits.largest == nullptr) return nullptr;
  finding->evidence.push_back(WaiterText(job, waits) + WakerText(job, waits));
  const PythonSource source = AddPlaces(job, part, finding);
  const bool could_tell_more =
      job.timeline.info().system.operators && job.timeline.samples().empty();
  if (source != PythonSource::kSamples && could_tell_more) finding->next = "--sample 99Hz";
  return waits.largest;
}

// Adds how long the thread was stopped, and who let it go on.
void AddStops(const Case& job, Finding* finding) {
  PlaceWaits stops;  // wherever the thread was
  bool is_over = true;
  for (const WaitSum& wait : job.waits) {
    if (wait.reason != WaitReason::kStopped) continue;
    stops.blocked_ns += wait.blocked_ns;
    stops.longest_ns = std::max(stops.longest_ns, wait.longest_ns);
    stops.count += wait.count;
    is_over &= wait.unfinished == 0;
    if (stops.largest == nullptr) stops.largest = &wait;
  }
  if (stops.largest == nullptr) return;
  finding->evidence.push_back("It was stopped " + CountText(stops.count, "time", "times") +
                              " for " + DurationText(stops.blocked_ns) + ", " +
                              DurationText(stops.longest_ns) + " at the longest" +
                              WakerText(job, stops));
  if (is_over) return;
  const std::string pid = std::to_string(Raw(job.parts.pid));
  finding->evidence.push_back("It was still stopped at the end: 'kill -CONT " + pid +
                              "' lets PID " + pid + " go on.");
}

// Returns whether the call waits for a lock of a file.
bool IsFileLock(const WaitPlace& place) {
  if (place.call < 0) return false;
  const std::string name = SystemCallName(place.abi, static_cast<uint64_t>(place.call));
  return name == "flock" || name == "fcntl";
}

// Returns the file whose lock took most of the time; empty: it is not known.
std::string LockedFile(const Case& job) {
  std::map<std::string, int64_t> by_file;
  ForEachEventIn(job, StepPart::kLock, [&](const SystemEvent& event) {
    if (event.kind != SystemKind::kOffCpu || event.around == kNoSystemEvent) return;
    const SystemEvent& call = job.timeline.system_event(event.around);
    by_file[FileText(job.timeline, call.file)] += event.duration_ns;
  });
  const auto most = LargestValue(by_file);
  return most == by_file.end() ? "" : most->first;
}

// Adds that many short sleeps of a part look like polling.
void AddPolling(const Case& job, Finding* finding) {
  constexpr uint64_t kMany = 20;  // in a step
  constexpr int64_t kShortNs = 1'000'000;
  const PlaceWaits sleeps =
      LongestPlace(job, [](const WaitSum& wait) { return wait.reason == WaitReason::kSleep; });
  if (sleeps.count < kMany * job.steps()) return;
  const int64_t mean_ns = sleeps.blocked_ns / static_cast<int64_t>(sleeps.count);
  if (mean_ns > kShortNs) return;
  finding->evidence.push_back(
      "These are " + std::to_string(sleeps.count / job.steps()) + " sleeps of " +
      DurationText(mean_ns) + (job.parts.are_steps ? " a step" : "") +
      ": as where a loop looks again and again for what another thread or process is to do.");
  const bool is_placed =
      std::any_of(finding->evidence.begin(), finding->evidence.end(),
                  [](const std::string& text) { return Contains(text, "by samples"); });
  if (!is_placed && sleeps.largest != nullptr) {
    AddPythonAround(job, sleeps.largest->place.call, finding);
  }
}

// The time of StepPart::kOther, in ns.
struct OtherTimes {
  std::map<WaitReason, int64_t> by_reason;  // off the CPU
  int64_t waited_ns = 0;                    // the sum of these
  std::map<std::string, int64_t> by_call;   // of system calls, on the CPU or off it
};

OtherTimes TimesOfOther(const Case& job) {
  std::map<WaitReason, TimeIntervals> waits;
  std::map<std::string, TimeIntervals> calls;
  ForEachEventIn(job, StepPart::kOther, [&](const SystemEvent& event) {
    if (event.kind == SystemKind::kOffCpu) {
      waits[event.off_cpu.reason].emplace_back(event.start_ns, event.runnable_ns());
    }
    if (event.kind == SystemKind::kCall) {
      calls[SystemEventName(event)].emplace_back(event.start_ns, event.end_ns());
    }
  });
  // A call, or a wait, may reach into other parts.
  const auto of_part = [&job](const TimeIntervals& intervals) {
    return job.parts.TimesIn(intervals)[static_cast<size_t>(StepPart::kOther)];
  };
  OtherTimes times;
  for (const auto& [reason, intervals] : waits) {
    const int64_t ns = of_part(intervals);
    times.by_reason[reason] = ns;
    times.waited_ns += ns;
  }
  for (const auto& [name, intervals] : calls) times.by_call[name] = of_part(intervals);
  return times;
}

// The results of calls that a timeout ended: poll() and its like report nothing, futex() an error.
constexpr int64_t kNothingIsReady = 0;
constexpr int64_t kTimedOut = -ETIMEDOUT;

// Returns whether timeouts ended nearly all waits of a part, which calls tell by that result. A
// loop that waits with a short timeout until something comes waits for that, and not for its
// timeouts.
bool TimeoutsEnd(const Case& job, StepPart part, WaitReason reason, int64_t result) {
  constexpr int64_t kLongestInLoopNs = 300'000;  // between two calls of such a loop
  int64_t all_ns = 0, timed_out_ns = 0;
  int64_t in_loop_ns = 0, last_ns = 0;  // of timeouts that directly precede
  ForEachEventIn(job, part, [&](const SystemEvent& event) {
    if (event.kind != SystemKind::kOffCpu || event.off_cpu.reason != reason) return;
    all_ns += event.duration_ns;
    if (event.around == kNoSystemEvent) return;
    const SystemEvent& call = job.timeline.system_event(event.around);
    const bool has_ended = call.kind == SystemKind::kCall && call.end != SpanEnd::kTruncated;
    if (event.start_ns - last_ns > kLongestInLoopNs) in_loop_ns = 0;
    last_ns = event.end_ns();
    if (has_ended && call.call.result == result) {
      timed_out_ns += event.duration_ns;
      in_loop_ns += event.duration_ns;
    } else if (has_ended && call.call.result >= 0) {
      timed_out_ns -= std::exchange(in_loop_ns, 0);
    }
  });
  return all_ns > 0 && 10 * timed_out_ns >= 9 * all_ns;
}

// Returns whether most of the time of waits without a known reason is in no system call.
bool WaitsInNoCall(const Case& job) {
  int64_t all_ns = 0;
  int64_t in_none_ns = 0;
  for (const WaitSum& wait : job.waits) {
    if (wait.reason != WaitReason::kOther) continue;
    all_ns += wait.blocked_ns;
    if (wait.place.call < 0) in_none_ns += wait.blocked_ns;
  }
  return 2 * in_none_ns > all_ns;
}

// Makes a finding about StepPart::kOther one about this reason.
void NameReason(const Case& job, WaitReason reason, Finding* finding) {
  switch (reason) {
    case WaitReason::kSleep:
      finding->kind = FindingKind::kSleep;
      finding->what = DriverText(job) + " sleeps for a time that it chose itself";
      break;
    case WaitReason::kPoll:
      finding->kind = FindingKind::kPoll;
      if (TimeoutsEnd(job, StepPart::kOther, reason, kNothingIsReady)) {
        finding->what = DriverText(job) + " waits until a timer of its own ends that (poll)";
        finding->evidence.emplace_back(
            "Nothing came in nearly all of that time: a timeout ended these waits, as in "
            "asyncio.sleep() "
            "or select() with a timeout.");
        break;
      }
      finding->what = DriverText(job) + " waits for files or sockets to become ready (poll)";
      break;
    case WaitReason::kChild:
      finding->kind = FindingKind::kChild;
      finding->what = DriverText(job) + " waits for a child process";
      break;
    case WaitReason::kSignal:
      finding->what = DriverText(job) + " waits for a signal";
      break;
    case WaitReason::kStopped:
      finding->kind = FindingKind::kStopped;
      finding->what = DriverText(job) + " is stopped by a signal (SIGSTOP, Ctrl-Z) or a debugger";
      break;
    default:
      finding->what = DriverText(job) + " waits in the kernel";
      if (WaitsInNoCall(job)) {
        finding->evidence.emplace_back(
            "It was in no system call then: its control group was frozen (a freezer, 'docker "
            "pause'), or it waited for a page of memory.");
      }
      break;
  }
}

// Returns whether the driving thread waits for the lock of Python's interpreter about as often as
// there are steps, or more often.
bool WantsGilOften(const Case& job) {
  const ThreadEvents events(job.timeline);
  size_t waits = 0;
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    waits += event.kind == SystemKind::kOffCpu && event.off_cpu.reason == WaitReason::kGil;
  }
  return waits >= std::max<size_t>(job.steps(), 1);
}

// Adds which system calls took the time, the longest first.
void AddLongestCalls(const Case& job, const OtherTimes& times, Finding* finding) {
  constexpr size_t kMostCalls = 3;
  std::vector<std::pair<std::string, int64_t>> calls(times.by_call.begin(), times.by_call.end());
  std::sort(calls.begin(), calls.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (size_t i = 0; i < std::min(kMostCalls, calls.size()); ++i) {
    if (!IsWorthTelling(calls[i].second, finding->ns)) break;
    text += (i == 0 ? "It was in " : ", ") + calls[i].first + " for " +
            DurationText(job.AStep(calls[i].second)) +
            (i == 0 && job.parts.are_steps ? " a step" : "");
  }
  if (!text.empty()) finding->evidence.push_back(text + ".");
  if (!calls.empty() && calls.front().first == "sched_yield") {
    finding->evidence.emplace_back(kYields);
    AddPlaces(job, StepPart::kOther, finding);
  }
  if (!calls.empty() && calls.front().first == "futex" && WantsGilOften(job)) {
    finding->evidence.emplace_back(
        "A thread also calls futex to take Python's interpreter lock (GIL) and to give it to "
        "another thread: this time belongs to the waits for that lock.");
  }
}

}  // namespace

std::optional<Finding> FindLock(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kLock, StepPart::kLock,
                              DriverText(job) + " waits for a lock that another thread holds");
  const WaitSum* const longest = AddWaits(job, StepPart::kLock, &finding);
  if (longest != nullptr && IsFileLock(longest->place)) {
    finding.what = DriverText(job) + " waits for a lock of a file, which another process may hold";
    const std::string file = LockedFile(job);
    if (!file.empty()) finding.evidence.push_back("The file is " + file + ".");
  }
  AddMeanwhile(job, StepPart::kLock, longest, &finding);
  return finding;
}

std::optional<Finding> FindOtherThread(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kOtherThread, StepPart::kEvent,
                              DriverText(job) + " waits for another thread to finish something");
  const WaitSum* const longest = AddWaits(job, StepPart::kEvent, &finding);
  if (longest != nullptr && Raw(longest->waker_pid) != 0 && longest->waker_pid != job.parts.pid) {
    finding.what = DriverText(job) + " waits for another process to finish something";
  }
  if (TimeoutsEnd(job, StepPart::kEvent, WaitReason::kEvent, kTimedOut)) {
    finding.what = DriverText(job) + " waits until a timeout of its own ends that";
    finding.evidence.emplace_back(
        "Nothing came in nearly all of that time: a timeout ended these waits, as in "
        "queue.get(timeout=1) or Event.wait(1).");
    return finding;
  }
  if (AddMeanwhile(job, StepPart::kEvent, longest, &finding)) {
    finding.what = DriverText(job) + " waits for work that another thread hands it";
    finding.evidence.push_back(
        "Nothing had come for that thread either: where this job serves requests, there were "
        "none.");
    finding.certainty = Certainty::kLikely;
  }
  return finding;
}

std::optional<Finding> FindOtherWaits(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kSystem, StepPart::kOther,
                              DriverText(job) + " waits in system calls of several kinds");
  const OtherTimes times = TimesOfOther(job);
  const auto reason = LargestValue(times.by_reason);
  const bool has_reason = reason != times.by_reason.end();
  if (has_reason && 2 * reason->second > finding.ns) {
    NameReason(job, reason->first, &finding);
    if (10 * reason->second < 9 * finding.ns) {
      finding.evidence.push_back("That is " + PercentText(reason->second, finding.ns) +
                                 " of this time; the rest are other system calls and waits.");
    }
    if (reason->first == WaitReason::kStopped) {
      AddStops(job, &finding);
    } else {
      AddWaits(job, StepPart::kOther, &finding, reason->first);
      if (reason->first == WaitReason::kSleep) AddPolling(job, &finding);
    }
  } else {
    if (!has_reason || 2 * times.waited_ns < finding.ns) {
      finding.what = DriverText(job) + " is in other system calls";
    }
    AddLongestCalls(job, times, &finding);
    AddPlaces(job, StepPart::kOther, &finding);
  }
  if (!job.timeline.info().system.calls && finding.kind == FindingKind::kSystem) {
    finding.next = kMoreOfKernel;
  }
  return finding;
}

std::optional<Finding> FindCollection(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kCollection, StepPart::kCollection,
                              "Python's garbage collector runs");
  finding.evidence.push_back(
      "Objects that refer to each other are looked for again and again: after gc.freeze() at the "
      "start there are fewer to look at, and a job that calls gc.collect() itself may do so less "
      "often.");
  return finding;
}

}  // namespace proftrace
