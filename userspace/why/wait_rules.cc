// Rules about the driving thread's waits: for a batch, for other ranks, threads and processes, and
// for files.
#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/io_roles.h"
#include "userspace/aggregate/system_text.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/shown_text.h"
#include "userspace/model/system_calls.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

constexpr char kMoreOfKernel[] = "--activities cpu,sched,syscalls";

Finding FindingOf(const Case& job, FindingKind kind, StepPart part, std::string what) {
  Finding finding;
  finding.kind = kind;
  finding.ns = job.parts.of(part);
  finding.what = std::move(what);
  return finding;
}

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
    case WaitReason::kOther:
      return part == StepPart::kOther;
    default:
      return false;
  }
}

// The waits at one place, whichever thread ended them.
struct PlaceWaits {
  int64_t blocked_ns = 0;
  int64_t longest_ns = 0;
  uint64_t count = 0;
  const WaitSum* largest = nullptr;
};

// Returns the place where the thread waited longest, among the waits for which `is_asked` is true.
template <typename IsAsked>
PlaceWaits LongestPlace(const Case& job, IsAsked&& is_asked) {
  using Key = std::tuple<WaitReason, uint32_t, uint32_t, int32_t>;
  std::map<Key, PlaceWaits> places;
  PlaceWaits longest;
  for (const WaitSum& wait : job.waits) {
    if (!is_asked(wait)) continue;
    const WaitPlace& at = wait.place;
    PlaceWaits& place = places[{wait.reason, Raw(at.path), Raw(at.stack), at.call}];
    place.blocked_ns += wait.blocked_ns;
    place.longest_ns = std::max(place.longest_ns, wait.longest_ns);
    place.count += wait.count;
    if (place.largest == nullptr) place.largest = &wait;
    if (place.blocked_ns > longest.blocked_ns) longest = place;
  }
  return longest;
}

std::string WaiterText(const Case& job, const PlaceWaits& waits) {
  const std::string place = WaitPlaceText(job.timeline, waits.largest->place);
  std::string text = "It waited " + CountText(waits.count, "time", "times") + " for " +
                     DurationText(waits.blocked_ns);
  if (!place.empty()) text += " at " + place;
  return text + ", " + DurationText(waits.longest_ns) + " at the longest";
}

std::string WakerText(const Case& job, const PlaceWaits& waits) {
  const WaitSum& wait = *waits.largest;
  const std::string which =
      wait.count == waits.count ? "; what ended that was " : "; what ended the longest was ";
  if (wait.waker_is_known) {
    const std::string place = WaitPlaceText(job.timeline, wait.waker);
    return which + ThreadPlaceText(job.timeline, wait.waker_thread, job.parts.pid) +
           (place.empty() ? "" : ", then in " + place) + ".";
  }
  if (Raw(wait.waker_tid) == 0) return ".";
  return which + absl::StrFormat("TID %u of PID %u, which is not recorded.", Raw(wait.waker_tid),
                                 Raw(wait.waker_pid));
}

// Adds the place where the thread waited longest in a part to the evidence. Returns the largest of
// its waits; nullptr: there are no waits.
const WaitSum* AddWaits(const Case& job, StepPart part, Finding* finding) {
  const PlaceWaits waits =
      LongestPlace(job, [part](const WaitSum& wait) { return IsOf(wait, part); });
  if (waits.largest == nullptr) return nullptr;
  finding->evidence.push_back(WaiterText(job, waits) + WakerText(job, waits));
  const bool is_known = AddPython(job, part, finding) != PythonSource::kNone;
  if (!is_known && job.timeline.info().system.operators) finding->next = "--with-stack";
  return waits.largest;
}

// Visits the events of the driving thread that begin in `part`.
template <typename Visitor>
void ForEachEventIn(const Case& job, StepPart part, Visitor&& visit) {
  const ThreadEvents events(job.timeline);
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (job.parts.IsIn(part, event.start_ns)) visit(event);
  }
}

// Adds what each worker was seen doing while the thread waited for its batch.
void AddWorkers(const Case& job, Finding* finding) {
  int64_t blocked_ns = 0, io_ns = 0, off_ns = 0, bytes = 0;
  uint64_t batches = 0, known = 0;
  std::map<std::string, int64_t> by_call;
  std::map<uint32_t, int64_t> by_worker;
  for (const DataWait& wait : job.aggregates.data_waits) {
    const Span& span = job.timeline.span(wait.span);
    if (span.thread != job.parts.thread || !job.parts.IsIn(StepPart::kData, span.start_ns))
      continue;
    ++batches;
    blocked_ns += wait.blocked_ns;
    if (Raw(wait.worker) == 0) continue;
    ++known;
    io_ns += wait.worker_io_ns;
    off_ns += wait.worker_off_ns;
    bytes += wait.worker_bytes;
    by_worker[Raw(wait.worker)] += wait.blocked_ns;
    if (wait.longest_call == kNoSystemEvent) continue;
    const SystemEvent& call = job.timeline.system_event(wait.longest_call);
    const std::string file = FileText(job.timeline, call.file);
    by_call[SystemEventName(call) + (file.empty() ? "" : " of " + file)] += wait.longest_call_ns;
  }
  if (batches == 0) return;
  const int64_t in_rows_ns = finding->ns;
  const int64_t looked_at_ns = std::max(blocked_ns, io_ns + off_ns);
  if (4 * blocked_ns < 3 * in_rows_ns) {
    finding->evidence.push_back(
        PercentText(std::max<int64_t>(0, in_rows_ns - blocked_ns), in_rows_ns) +
        " of that time it did not wait for a worker, but took batches over: fewer and larger "
        "tensors in a batch, or pin_memory's thread, make that shorter.");
  }
  if (known == 0) return;
  const auto worker = LargestValue(by_worker);
  std::string text = by_worker.size() == 1 ? "Worker PID " + std::to_string(worker->first)
                                           : std::to_string(by_worker.size()) + " workers, PID " +
                                                 std::to_string(worker->first) + " most of all,";
  text += " had the thread wait " + DurationText(blocked_ns / static_cast<int64_t>(batches)) +
          " a batch; meanwhile " + PercentText(io_ns, looked_at_ns) +
          " of the time was spent in I/O, " + PercentText(off_ns, looked_at_ns) +
          " blocked otherwise, the rest computing.";
  finding->evidence.push_back(text);
  const auto call = LargestValue(by_call);
  if (call != by_call.end() && 5 * call->second > blocked_ns) {
    text = "The longest calls were " + call->first + ", " +
           PercentText(call->second, looked_at_ns) + " of the wait";
    if (bytes > 0 && io_ns > 0) {
      text += "; " + BytesText(bytes / static_cast<int64_t>(known)) + " were read a batch, " +
              BytesText(static_cast<int64_t>(static_cast<double>(bytes) * 1e9 /
                                             static_cast<double>(io_ns))) +
              " a second of I/O";
    }
    finding->evidence.push_back(text + ".");
  }
}

// Returns whether most batches come from DataLoaders without workers.
bool MakesBatches(const Case& job) {
  int64_t by_itself_ns = 0;
  const DataLoaderRows loader(job.timeline);
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    if (span.thread != job.parts.thread || !loader.Has(span)) return;
    const std::string& name = job.timeline.label(span.label).name;
    const bool is_alone = name.find("_SingleProcessDataLoaderIter") != std::string::npos;
    by_itself_ns += is_alone ? span.duration_ns : -span.duration_ns;
  });
  return by_itself_ns > 0;
}

}  // namespace

std::optional<Finding> FindDataLoader(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kDataLoader, StepPart::kData,
                              DriverText(job) + " waits for the DataLoader's next batch");
  if (MakesBatches(job)) {
    finding.what = DriverText(job) + " makes the next batch itself, in the DataLoader";
    finding.evidence.push_back(
        "This DataLoader has no worker: with some (num_workers) batches would be made beside the "
        "training.");
    if (!job.timeline.has_stacks()) finding.next = "--with-stack";
  } else if (job.parts.has_kernel) {
    AddWorkers(job, &finding);
    const SystemActivities& system = job.timeline.info().system;
    if (!system.calls && !system.io) finding.next = kMoreOfKernel;
  } else {
    finding.what = "getting the next batch from the DataLoader";
    finding.evidence.push_back("What its workers did meanwhile was not recorded.");
    finding.next = kMoreOfKernel;
  }
  return finding;
}

std::optional<Finding> FindCollectives(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kCollectives, StepPart::kCollective,
                              DriverText(job) + " waits for collectives with other ranks");
  finding.certainty = Certainty::kLikely;
  finding.evidence.push_back(
      "It was blocked while collectives of this process were under way. Which rank came last is "
      "seen when all ranks are recorded at once: 'proftrace merge' compares them.");
  return finding;
}

std::optional<Finding> FindLock(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kLock, StepPart::kLock,
                              DriverText(job) + " waits for a lock that another thread holds");
  AddWaits(job, StepPart::kLock, &finding);
  return finding;
}

std::optional<Finding> FindOtherThread(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kOtherThread, StepPart::kEvent,
                              DriverText(job) + " waits for another thread to finish something");
  const WaitSum* const longest = AddWaits(job, StepPart::kEvent, &finding);
  if (longest == nullptr || !longest->waker_is_known) return finding;
  if (AddMeanwhile(job, StepPart::kEvent, longest->waker_thread, &finding)) {
    finding.what = DriverText(job) + " waits for work that another thread hands it";
    finding.evidence.push_back(
        "Nothing had come for that thread either: where this job serves requests, there were "
        "none.");
    finding.certainty = Certainty::kLikely;
  }
  return finding;
}

std::optional<Finding> FindIo(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kIo, StepPart::kIo,
                              DriverText(job) + " itself reads or writes files or sockets");
  struct Sums {
    int64_t ns = 0, bytes = 0;
    uint64_t calls = 0;
    IoRole role = IoRole::kNone;
  };
  std::map<std::string, Sums> by_file;
  ForEachEventIn(job, StepPart::kIo, [&](const SystemEvent& event) {
    if (!IsIo(event)) return;
    const std::string file = FileText(job.timeline, event.file);
    const IoFacts io = IoOf(job.timeline.system_tables(), event);
    Sums& sums = by_file[file];
    sums.ns += event.duration_ns;
    sums.bytes += io.bytes;
    ++sums.calls;
    if (io.role != IoRole::kNone) sums.role = io.role;
  });
  const auto most = std::max_element(by_file.begin(), by_file.end(),
                                     [](auto& a, auto& b) { return a.second.ns < b.second.ns; });
  if (most == by_file.end()) {
    const PlaceWaits waits =
        LongestPlace(job, [](const WaitSum& wait) { return wait.reason == WaitReason::kIo; });
    if (waits.largest != nullptr) finding.evidence.push_back(WaiterText(job, waits) + ".");
    finding.next = kMoreOfKernel;
    return finding;
  }
  const Sums& sums = most->second;
  std::string text = CountText(sums.calls, "call", "calls") + " for " + DurationText(sums.ns) +
                     (sums.role == IoRole::kRead    ? " read "
                      : sums.role == IoRole::kWrite ? " wrote "
                                                    : " were of ");
  text += most->first.empty() ? "something without a name" : most->first;
  if (sums.bytes > 0 && sums.ns > 0) {
    text += absl::StrFormat(": %s at %s a second", BytesText(sums.bytes),
                            BytesText(static_cast<int64_t>(static_cast<double>(sums.bytes) * 1e9 /
                                                           static_cast<double>(sums.ns))));
  }
  finding.evidence.push_back(text + ".");
  if (by_file.size() > 1) {
    finding.evidence.push_back(CountText(by_file.size() - 1, "other file", "other files") +
                               " took less: 'proftrace report --by-file' lists them.");
  }
  AddPython(job, StepPart::kIo, &finding);
  return finding;
}

std::optional<Finding> FindOtherWaits(const Case& job) {
  std::map<WaitReason, int64_t> by_reason;
  std::map<std::string, int64_t> by_call;
  ForEachEventIn(job, StepPart::kOther, [&](const SystemEvent& event) {
    if (event.kind == SystemKind::kOffCpu) by_reason[event.off_cpu.reason] += event.duration_ns;
    if (event.kind == SystemKind::kCall) by_call[SystemEventName(event)] += event.duration_ns;
  });
  const auto reason = LargestValue(by_reason);
  Finding finding = FindingOf(job, FindingKind::kSystem, StepPart::kOther,
                              DriverText(job) + " is in other system calls");
  const auto call = LargestValue(by_call);
  const bool is_wait = reason != by_reason.end() && 2 * reason->second > finding.ns;
  if (is_wait) {
    switch (reason->first) {
      case WaitReason::kSleep:
        finding.kind = FindingKind::kSleep;
        finding.what = DriverText(job) + " sleeps for a time that it chose itself";
        break;
      case WaitReason::kPoll:
        finding.kind = FindingKind::kPoll;
        finding.what = DriverText(job) + " waits for files or sockets to become ready (poll)";
        break;
      case WaitReason::kChild:
        finding.kind = FindingKind::kChild;
        finding.what = DriverText(job) + " waits for a child process";
        break;
      case WaitReason::kSignal:
        finding.what = DriverText(job) + " is stopped, or waits for a signal";
        break;
      default:
        finding.what = DriverText(job) + " waits in the kernel";
        break;
    }
    AddWaits(job, StepPart::kOther, &finding);
  } else if (call != by_call.end()) {
    finding.evidence.push_back("Most of it was in " + call->first + ", " +
                               DurationText(job.AStep(call->second)) + " a step.");
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
      "Objects that refer to each other are looked for again and again: gc.freeze() after the "
      "start, or gc.collect() at moments of one's own, makes that rarer.");
  return finding;
}

}  // namespace proftrace
