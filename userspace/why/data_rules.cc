// Rules about the DataLoader: what its workers did while the driving thread waited for a batch, or
// what the thread did where it made the batch itself.
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/io_roles.h"
#include "userspace/aggregate/system_text.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/aggregate/thread_uses.h"
#include "userspace/why/rules.h"
#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

constexpr int64_t kLacksCpu = 5;  // workers that wait for a CPU for more than a fifth of the time
constexpr int64_t kBlockedPart = 5;     // a call in which workers are blocked for less is not told
constexpr double kMuchOfSampler = 0.2;  // of the time in the DataLoader: less is not told

// The workers' calls of one kind on the same file, or on files of the same kind.
struct CallUse {
  int64_t ns = 0;
  std::set<uint32_t> files;  // SystemFileId
};

using CallUses = std::map<std::pair<std::string, std::string>, CallUse>;  // by call and place

// What the workers did in all waits for batches that have a known worker.
struct WorkerSums {
  int64_t blocked_ns = 0;  // of the driving thread, in all waits
  uint64_t batches = 0;
  uint64_t known = 0;        // batches whose worker is known
  int64_t looked_at_ns = 0;  // of workers, as what follows
  int64_t io_ns = 0;
  int64_t off_ns = 0;  // blocked otherwise
  int64_t queue_ns = 0;
  int64_t bytes = 0;                      // read
  std::map<uint32_t, int64_t> by_worker;  // the driving thread's waits, ns
  CallUses by_file;
  CallUses by_group;  // see FileGroupText()
  CallUses blocked;   // by call and file: those in which they were blocked otherwise
};

void AddCall(const Timeline& timeline, const WorkerCalls& calls, WorkerSums* sums) {
  const SystemEvent& event = timeline.system_event(calls.call);
  const std::string name = SystemEventName(event);
  for (CallUse* use : {&sums->by_file[{name, FileText(timeline, event.file)}],
                       &sums->by_group[{name, FileGroupText(timeline, event.file)}]}) {
    use->ns += calls.ns;
    use->files.insert(Raw(event.file));
  }
}

WorkerSums SumWorkers(const Case& job) {
  WorkerSums sums;
  for (const DataWait& wait : job.aggregates.data_waits) {
    const Span& span = job.timeline.span(wait.span);
    if (span.thread != job.parts.thread || !job.parts.IsIn(StepPart::kData, span.start_ns))
      continue;
    ++sums.batches;
    sums.blocked_ns += wait.blocked_ns;
    if (Raw(wait.worker) == 0) continue;
    ++sums.known;
    sums.looked_at_ns += wait.worker_ns;
    sums.io_ns += wait.worker_io_ns;
    sums.queue_ns += wait.worker_run_queue_ns;
    sums.off_ns += wait.worker_off_ns - wait.worker_run_queue_ns;
    sums.bytes += wait.worker_bytes;
    sums.by_worker[Raw(wait.worker)] += wait.blocked_ns;
    for (const WorkerCalls& calls : wait.worker_calls) AddCall(job.timeline, calls, &sums);
    for (const WorkerCalls& calls : wait.worker_blocked_calls) {
      const SystemEvent& event = job.timeline.system_event(calls.call);
      sums.blocked[{SystemEventName(event), FileText(job.timeline, event.file)}].ns += calls.ns;
    }
  }
  sums.looked_at_ns = std::max(sums.looked_at_ns, sums.io_ns + sums.off_ns + sums.queue_ns);
  return sums;
}

CallUses::const_iterator Longest(const CallUses& uses) {
  return std::max_element(uses.begin(), uses.end(),
                          [](const auto& a, const auto& b) { return a.second.ns < b.second.ns; });
}

// Returns "read of /data/shard-17.bin", or "read of 812 files in /data/train" where no file has
// half of the calls' time; empty: no calls are worth a sentence. `ns`: their time.
std::string CallsText(const WorkerSums& sums, int64_t* ns) {
  const auto file = Longest(sums.by_file);
  if (file == sums.by_file.end()) return "";
  const auto group = Longest(sums.by_group);
  const auto& [call, text] = group->first;
  const bool has_group =
      !text.empty() && group->second.files.size() > 1 && 2 * group->second.ns > sums.io_ns;
  if (2 * file->second.ns <= sums.io_ns && has_group) {
    *ns = group->second.ns;
    return call + " of " + std::to_string(group->second.files.size()) + " " + text;
  }
  *ns = file->second.ns;
  if (5 * *ns <= sums.looked_at_ns) return "";
  const std::string& name = file->first.second;
  return file->first.first + (name.empty() ? "" : " of " + name);
}

// Returns "; 8.4 MB a batch were read in that time, 1.2 GB a second of I/O"; empty: nothing was.
std::string ReadText(const WorkerSums& sums) {
  if (sums.bytes <= 0 || sums.io_ns <= 0) return "";
  const double a_second = static_cast<double>(sums.bytes) * 1e9 / static_cast<double>(sums.io_ns);
  return "; " + BytesText(sums.bytes / static_cast<int64_t>(sums.known)) +
         " a batch were read in that time, " + BytesText(static_cast<int64_t>(a_second)) +
         " a second of I/O";
}

// Adds the call in which the workers were blocked longest, where it matters.
void AddBlockedCall(const WorkerSums& sums, Finding* finding) {
  const auto most = Longest(sums.blocked);
  if (most == sums.blocked.end() || kBlockedPart * most->second.ns < sums.looked_at_ns) return;
  const auto& [call, file] = most->first;
  finding->evidence.push_back("It was blocked in " + call + (file.empty() ? "" : " of " + file) +
                              " for " + PercentText(most->second.ns, sums.looked_at_ns) +
                              " of that time.");
}

// Adds the calls that took longest; `whole`: what they are a part of.
void AddCalls(const WorkerSums& sums, const std::string& whole, Finding* finding) {
  int64_t ns = 0;
  const std::string calls = CallsText(sums, &ns);
  if (calls.empty()) return;
  finding->evidence.push_back("The calls that took longest were " + calls + ", " +
                              PercentText(ns, sums.looked_at_ns) + " " + whole + ReadText(sums) +
                              ".");
}

bool IsIdle(const SystemEvent& event) {
  if (event.kind != SystemKind::kOffCpu) return false;
  const WaitReason reason = event.off_cpu.reason;  // of a worker that waits for an order
  return reason == WaitReason::kPoll || reason == WaitReason::kLock || reason == WaitReason::kEvent;
}

// Returns whether the thread is that of a worker which loads. torch names it.
bool IsLoading(const Case& job, const Thread& thread) {
  return Raw(thread.tid) == Raw(thread.pid) && thread.pid != job.parts.pid &&
         thread.name == "pt_data_worker";
}

// Adds that workers are started again and again, where far more of them ran than at one time.
void AddRestarts(const Case& job, const ThreadEvents& events, Finding* finding) {
  std::vector<std::pair<int64_t, int>> changes;  // when one began (1) or ended (-1)
  for (uint32_t i = 0; i < job.timeline.threads().size(); ++i) {
    const std::vector<uint32_t>& of = events.of(ThreadIndex{i});
    if (!IsLoading(job, job.timeline.threads()[i]) || of.empty()) continue;
    changes.emplace_back(job.timeline.system_event(of.front()).start_ns, 1);
    changes.emplace_back(job.timeline.system_event(of.back()).end_ns(), -1);
  }
  std::sort(changes.begin(), changes.end());
  int at_once = 0, most = 0;
  for (const auto& [time_ns, change] : changes) most = std::max(most, at_once += change);
  const size_t workers = changes.size() / 2;
  if (workers < 4 || workers < 3 * static_cast<size_t>(most)) return;
  finding->evidence.push_back(
      std::to_string(workers) + " workers ran, " + std::to_string(most) +
      " at a time: they are started anew again and again, as for each epoch, which "
      "persistent_workers=True spares.");
}

// Returns for how much of the time of all steps each worker was not waiting for an order, by PID.
std::map<uint32_t, int64_t> BusyWorkers(const Case& job, const ThreadEvents& events) {
  const Timeline& timeline = job.timeline;
  const int64_t from_ns = job.parts.intervals.front().first;
  const int64_t until_ns = job.parts.intervals.back().second;
  std::map<uint32_t, int64_t> busy;
  for (uint32_t i = 0; i < timeline.threads().size(); ++i) {
    const Thread& thread = timeline.threads()[i];
    const std::vector<uint32_t>& of = events.of(ThreadIndex{i});
    if (!IsLoading(job, thread) || of.empty()) continue;
    // A worker that began or ended meanwhile is not compared with others.
    const int64_t lived_ns = std::min(until_ns, timeline.system_event(of.back()).end_ns()) -
                             std::max(from_ns, timeline.system_event(of.front()).start_ns);
    if (5 * lived_ns < 4 * (until_ns - from_ns)) continue;
    int64_t ns = until_ns - from_ns;
    for (const uint32_t index : of) {
      const SystemEvent& event = timeline.system_event(index);
      if (!IsIdle(event)) continue;
      ns -= std::max<int64_t>(
          0, std::min(event.runnable_ns(), until_ns) - std::max(event.start_ns, from_ns));
    }
    busy[Raw(thread.pid)] = std::max<int64_t>(0, ns);
  }
  return busy;
}

// Returns whether all workers are too slow, or only the one for which the thread waited most;
// empty: neither is clear. `lack_cpu`: they wait for a CPU for much of the time.
std::string LoadsText(const Case& job, const ThreadEvents& events, uint32_t slowest,
                      bool lack_cpu) {
  std::map<uint32_t, int64_t> busy = BusyWorkers(job, events);
  const auto its = busy.find(slowest);
  if (busy.size() < 2 || its == busy.end()) return "";
  const int64_t all_ns = job.parts.intervals.back().second - job.parts.intervals.front().first;
  const size_t count = busy.size();
  const int64_t its_ns = its->second;
  busy.erase(its);
  const auto [least, most] = std::minmax_element(
      busy.begin(), busy.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (5 * std::min(its_ns, least->second) > 4 * all_ns) {
    return "All " + std::to_string(count) + " workers were at work for at least " +
           PercentText(std::min(its_ns, least->second), all_ns) +
           (lack_cpu ? " of the time, and wait for a CPU for much of it: less work for each item "
                       "would make batches come sooner, more of them would not."
                     : " of the time: more of them (num_workers), or less work for each item, "
                       "would make batches come sooner.");
  }
  if (2 * its_ns > all_ns && its_ns > 2 * most->second) {
    return "PID " + std::to_string(slowest) + " was at work for " + PercentText(its_ns, all_ns) +
           " of the time, the other " + CountText(count - 1, "worker", "workers") + " for " +
           PercentText(most->second, all_ns) + " at the most: its items take longer.";
  }
  return "";
}

// The looks of samples at a worker's loading thread while it was waited for.
TimesByThread WaitsFor(const Case& job, Pid worker) {
  TimeIntervals waits;
  for (const DataWait& wait : job.aggregates.data_waits) {
    const Span& span = job.timeline.span(wait.span);
    if (span.thread != job.parts.thread || wait.worker != worker || wait.worker_ns <= 0) continue;
    waits.emplace_back(span.start_ns, span.start_ns + wait.worker_ns);
  }
  const auto thread = ThreadsByNumber(job.timeline).Find(worker, Tid{Raw(worker)});
  return thread ? TimesByThread{{*thread, waits}} : TimesByThread{};
}

// Returns whether the worker waits for its next order in this look: `_worker_loop` of
// torch/utils/data/_utils/worker.py gets it from a queue.
bool AwaitsOrder(const Timeline& timeline, const Sample& sample) {
  const std::vector<const SampleFrame*> frames = PythonFramesOf(timeline, sample.frame);
  for (size_t i = 0; i + 1 < frames.size(); ++i) {
    const SampleFunction& called = timeline.sample_function(*frames[i]);
    const SampleFunction& caller = timeline.sample_function(*frames[i + 1]);
    if (called.name.ends_with("get") && called.file.ends_with("multiprocessing/queues.py") &&
        caller.name == "_worker_loop") {
      return true;
    }
  }
  return false;
}

// Adds that the worker had made the batch, if it mostly waited for its next order while it was
// waited for.
bool AddAwaitedOrders(const Case& job, const TimesByThread& waits, Finding* finding) {
  int64_t all = 0;
  int64_t idle = 0;
  ForEachLook(job, waits, [&](const Sample& sample) {
    ++all;
    idle += AwaitsOrder(job.timeline, sample);
  });
  if (all < kFewestSamples || 2 * idle <= all) return false;
  finding->evidence.push_back(
      "For " + PercentText(idle, all) +
      " of that, by samples, the worker waited for its next order: it had made the batch, which "
      "the thread was taking over. More workers do not make that shorter.");
  return true;
}

// Adds what each worker was seen doing while the thread waited for its batch.
void AddWorkers(const Case& job, Finding* finding) {
  const WorkerSums sums = SumWorkers(job);
  if (sums.batches == 0) return;
  const int64_t in_rows_ns = finding->ns;
  if (4 * sums.blocked_ns < 3 * in_rows_ns) {
    finding->evidence.push_back(
        PercentText(std::max<int64_t>(0, in_rows_ns - sums.blocked_ns), in_rows_ns) +
        " of that time it did not wait for a worker, but took batches over: fewer and larger "
        "tensors in a batch, or pin_memory's thread, make that shorter.");
  }
  if (sums.known == 0) return;
  const auto worker = LargestValue(sums.by_worker);
  const std::string pid = std::to_string(worker->first);
  finding->evidence.push_back(
      (sums.by_worker.size() == 1
           ? "Worker PID " + pid
           : std::to_string(sums.by_worker.size()) + " workers, PID " + pid + " most of all,") +
      " had the thread wait " + DurationText(sums.blocked_ns / static_cast<int64_t>(sums.batches)) +
      " a batch; meanwhile " + PercentText(sums.io_ns, sums.looked_at_ns) +
      " of the time was spent in I/O, " + PercentText(sums.off_ns, sums.looked_at_ns) +
      " blocked otherwise, " + PercentText(sums.queue_ns, sums.looked_at_ns) +
      " waiting for a CPU, the rest computing.");
  const TimesByThread waits = WaitsFor(job, Pid{worker->first});
  const bool has_samples = !job.timeline.samples().empty();
  if (has_samples && AddAwaitedOrders(job, waits, finding)) return;
  AddBlockedCall(sums, finding);
  const ThreadEvents events(job.timeline);
  if (std::string loads =
          LoadsText(job, events, worker->first, kLacksCpu * sums.queue_ns > sums.looked_at_ns);
      !loads.empty()) {
    finding->evidence.push_back(std::move(loads));
  }
  AddRestarts(job, events, finding);
  AddCalls(sums, "of the wait", finding);
  if (has_samples && !waits.empty()) AddPlaces(job, waits, "PID " + pid, finding);
  const int64_t computed_ns = sums.looked_at_ns - sums.io_ns - sums.off_ns - sums.queue_ns;
  if (!has_samples && 2 * computed_ns > sums.looked_at_ns) finding->next = "--sample 99Hz";
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

// Returns which part of the driving thread's time in the DataLoader its sampler took, which chooses
// the items of the next batch, 0 to 1, by samples; 0: there are too few.
double SamplerShare(const Case& job) {
  int64_t all = 0;
  int64_t in_sampler = 0;
  ForEachLook(job, TimesOf(job, StepPart::kData), [&](const Sample& sample) {
    const std::vector<const SampleFrame*> frames = PythonFramesOf(job.timeline, sample.frame);
    ++all;
    in_sampler += std::any_of(frames.begin(), frames.end(), [&job](const SampleFrame* frame) {
      const SampleFunction& function = job.timeline.sample_function(*frame);
      return function.name.ends_with("_next_index") &&
             function.file.ends_with("torch/utils/data/dataloader.py");
    });
  });
  return all < kFewestSamples ? 0 : static_cast<double>(in_sampler) / static_cast<double>(all);
}

// Adds whether workers would make batches beside the training, or, where there are some, what they
// cannot do.
void AddAdviceOnWorkers(const Case& job, bool has_workers, Finding* finding) {
  const double sampler = SamplerShare(job);
  if (sampler >= kMuchOfSampler) {
    finding->evidence.push_back(
        absl::StrFormat("%.0f %% of the samples there are in its sampler, which runs in this "
                        "process even where there are workers: a cheaper sampler makes that "
                        "shorter, more workers do not.",
                        100 * sampler));
  }
  if (!has_workers && 2 * sampler < 1) {
    finding->evidence.push_back(
        "This DataLoader has no worker: with some (num_workers) batches would be made beside the "
        "training.");
  }
}

// Adds how the thread spent the time in which it made batches.
void AddUsesOfBatches(const Case& job, Finding* finding) {
  const ThreadEvents events(job.timeline);
  TimeIntervals io, blocked;
  for (const TimedUse& use : UsesOfThread(job.timeline, events, job.parts.thread)) {
    if (use.use == TimeUse::kIo) {
      io.emplace_back(use.start_ns, use.end_ns);
    } else if (use.is_blocked) {
      blocked.emplace_back(use.start_ns, use.end_ns);
    }
  }
  const auto in_batches = [&job](const TimeIntervals& times) {
    return job.parts.TimesIn(times)[static_cast<size_t>(StepPart::kData)];
  };
  finding->evidence.push_back("Of that time it spent " + PercentText(in_batches(io), finding->ns) +
                              " in I/O, " + PercentText(in_batches(blocked), finding->ns) +
                              " blocked otherwise (it slept, or waited), the rest computing.");
  WorkerSums own;  // the thread in a worker's place
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (!IsIo(event) || !job.parts.IsIn(StepPart::kData, event.start_ns)) continue;
    own.io_ns += event.duration_ns;
    AddCall(job.timeline, {index, event.duration_ns}, &own);
  }
  own.looked_at_ns = finding->ns;
  AddCalls(own, "of that time", finding);
}

}  // namespace

std::optional<Finding> FindDataLoader(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kDataLoader, StepPart::kData,
                              DriverText(job) + " waits for the DataLoader's next batch");
  if (MakesBatches(job)) {
    finding.what = DriverText(job) + " makes the next batch itself, in the DataLoader";
    AddAdviceOnWorkers(job, /*has_workers=*/false, &finding);
    if (job.parts.has_kernel) AddUsesOfBatches(job, &finding);
    const PythonSource source = AddPlaces(job, StepPart::kData, &finding);
    if (source != PythonSource::kSamples) finding.next = "--sample 99Hz";
  } else if (job.parts.has_kernel) {
    AddWorkers(job, &finding);
    AddAdviceOnWorkers(job, /*has_workers=*/true, &finding);
    const SystemActivities& system = job.timeline.info().system;
    if (!system.calls && !system.io) finding.next = kMoreOfKernel;
  } else {
    finding.what = "getting the next batch from the DataLoader";
    finding.evidence.push_back("What its workers did meanwhile was not recorded.");
    finding.next = kMoreOfKernel;
  }
  return finding;
}

}  // namespace proftrace
