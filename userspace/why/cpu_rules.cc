// Rules about time in which the driving thread could run and had no CPU, because other threads had
// the CPUs or a quota of the job's control group was used up.
//
//   period   |  runs  |  the quota is used up: all wait  |  runs  |  …           (cpu.max 30000
//   100000)
//            0        30 ms                              100 ms   130 ms
//
// The kernel counts the periods in which a quota was used up. The finding names the quota only
// where these counters can explain the thread's waits: other threads that want the same CPUs make
// many more waits than there are periods, or waits in which no quota was used up.
#include <absl/strings/str_format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "userspace/aggregate/cpu_throttling.h"
#include "userspace/aggregate/system_text.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

// A quota is much where it was used up in at least a twentieth of the periods.
constexpr uint64_t kFewPeriods = 20;

// Threads that want this many times the CPUs that they have are told of.
constexpr double kMuchMore = 1.5;

// The CPUs that the job may run on.
struct AllowedCpus {
  uint32_t count = 0;     // 0: not known
  std::string mask;       // "0-3,8"; empty: it may run on all CPUs of the host, or it is not known
  bool is_known = false;  // whether the recording tells if there is a mask

  bool is_masked() const { return !mask.empty(); }
};

AllowedCpus AllowedFor(const RecordingInfo& info, Pid pid) {
  const auto mask = info.cpu_masks.find(Raw(pid));
  if (mask == info.cpu_masks.end()) return {info.host.cpus, "", false};
  if (mask->second.count >= info.host.cpus) return {info.host.cpus, "", true};
  return {mask->second.count, mask->second.cpus, true};
}

// Returns "of the host's 8 CPUs", or "of the 2 CPUs that the job may use (CPU 0-1 of the host's 8,
// by taskset or a cpuset)".
std::string AllowedText(const AllowedCpus& allowed, uint32_t cpus_of_host) {
  if (!allowed.is_masked()) return absl::StrFormat("of the host's %u CPUs", cpus_of_host);
  return "of the " + CountText(allowed.count, "CPU", "CPUs") + " that the job may use (CPU " +
         ShownText(allowed.mask) +
         absl::StrFormat(" of the host's %u, by taskset or a cpuset)", cpus_of_host);
}

// Returns whether a thread was there before the window: the first thread of a process that was.
bool IsOlderThanWindow(const RecordingInfo& info, const Thread& thread) {
  constexpr int64_t kNsInTick = 10'000'000;  // USER_HZ is 100 everywhere
  if (Raw(thread.tid) != Raw(thread.pid)) return false;
  const auto target = std::find_if(info.targets.begin(), info.targets.end(),
                                   [&](const Target& at) { return at.pid == thread.pid; });
  // The ticks are those of CLOCK_BOOTTIME, which is never behind the window's clock.
  return target != info.targets.end() && target->start_ticks > 0 &&
         static_cast<int64_t>(target->start_ticks) < info.window.start_ns / kNsInTick;
}

// How much the threads of the recorded processes used CPUs.
struct CpuUse {
  double on_cpu = 0;  // CPUs, on the average
  double wanted = 0;  // CPUs that threads were on or waited for, on the average
  uint64_t busy = 0;  // threads that worked more than a tenth of the time
  // The thread that worked most, beside the driving one, and for which part of the time; nullopt:
  // none worked more than a tenth of it.
  std::optional<ThreadIndex> rival;
  double rival_part = 0.1;
};

// Adds up the use of all processes; where the driving thread's process has a CPU mask, of those
// with the same one.
CpuUse UseOf(const Case& job, const ThreadEvents& events) {
  const Timeline& timeline = job.timeline;
  const Pid pid = job.parts.pid;
  const double window_ns = static_cast<double>(timeline.info().window.duration_ns);
  const AllowedCpus allowed = AllowedFor(timeline.info(), pid);
  CpuUse use;
  for (uint32_t i = 0; i < timeline.threads().size(); ++i) {
    const Pid of = timeline.thread(ThreadIndex{i}).pid;
    if (allowed.is_masked() && AllowedFor(timeline.info(), of).mask != allowed.mask) continue;
    // Between its first and last time off the CPU, a thread was on a CPU for the rest of the time.
    // A wait that goes on when the window begins is recorded from there on, so that a thread which
    // was there by then, and has none, was on a CPU.
    double off_ns = 0, queue_ns = 0;
    int64_t first_ns = 0, last_ns = 0;
    for (const uint32_t index : events.of(ThreadIndex{i})) {
      const SystemEvent& event = timeline.system_event(index);
      if (event.kind != SystemKind::kOffCpu) continue;
      if (first_ns == 0) first_ns = event.start_ns;
      last_ns = std::max(last_ns, event.end_ns());
      off_ns += static_cast<double>(event.duration_ns);
      queue_ns += static_cast<double>(event.off_cpu.run_queue_ns);
    }
    if (first_ns != 0 && IsOlderThanWindow(timeline.info(), timeline.thread(ThreadIndex{i}))) {
      first_ns = std::min(first_ns, timeline.info().window.start_ns);
    }
    const double part = std::max(0.0, static_cast<double>(last_ns - first_ns) - off_ns) / window_ns;
    use.on_cpu += part;
    use.wanted += part + queue_ns / window_ns;
    if (part > 0.1) ++use.busy;
    if (part > use.rival_part && ThreadIndex{i} != job.parts.thread) {
      use.rival = ThreadIndex{i};
      use.rival_part = part;
    }
  }
  return use;
}

// Waking up a thread whose CPU rests takes some tens of microseconds on virtual machines.
constexpr int64_t kLongestWakeUpNs = 100'000;

// The driving thread's waits for a CPU.
struct Delays {
  std::vector<int64_t> all;       // ns, ascending
  std::vector<int64_t> in_steps;  // ns, the longest first
  // Short ones at the end of another wait, in steps.
  size_t wake_ups = 0;
  int64_t wake_up_ns = 0;

  int64_t middle_ns() const { return all.empty() ? 0 : all[all.size() / 2]; }
  // Returns whether most of that time in steps is what waking the thread up took.
  bool AreWakeUps() const {
    const int64_t all_ns = LongestNs(in_steps.size());
    return all_ns > 0 && 2 * wake_up_ns >= all_ns;
  }
  // Returns the sum of the `count` longest waits in steps.
  int64_t LongestNs(uint64_t count) const {
    int64_t ns = 0;
    for (size_t i = 0; i < std::min<uint64_t>(count, in_steps.size()); ++i) ns += in_steps[i];
    return ns;
  }
};

Delays DelaysOf(const Case& job, const ThreadEvents& events) {
  Delays delays;
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (event.kind != SystemKind::kOffCpu || event.off_cpu.run_queue_ns <= 0) continue;
    const int64_t ns = event.off_cpu.run_queue_ns;
    delays.all.push_back(ns);
    if (job.parts.At(event.end_ns() - ns) == nullptr) continue;
    delays.in_steps.push_back(ns);
    if (event.off_cpu.reason == WaitReason::kPreempted || ns > kLongestWakeUpNs) continue;
    ++delays.wake_ups;
    delays.wake_up_ns += ns;
  }
  std::sort(delays.all.begin(), delays.all.end());
  std::sort(delays.in_steps.rbegin(), delays.in_steps.rend());
  return delays;
}

// Returns "the quota of control group /pod, 0.5 CPUs, was used up in 9 of 10 periods of 100 ms".
std::string QuotaText(const CpuQuota& quota) {
  const double cpus = static_cast<double>(quota.quota_ns) / static_cast<double>(quota.period_ns);
  return "the quota of control group " + ShownText(quota.group) +
         absl::StrFormat(", %.3g CPUs, was used up in %d of %d periods of %.4g ms", cpus,
                         quota.throttled_periods, quota.periods,
                         static_cast<double>(quota.period_ns) * 1e-6);
}

bool IsMuch(const CpuQuota& quota) {
  return quota.throttled_periods > 0 && kFewPeriods * quota.throttled_periods >= quota.periods;
}

// Returns the quota that kept threads waiting longest; nullptr: there is none.
const CpuQuota* HardestOf(const std::vector<CpuQuota>& quotas) {
  const auto hardest = std::max_element(
      quotas.begin(), quotas.end(),
      [](const CpuQuota& a, const CpuQuota& b) { return a.throttled_ns < b.throttled_ns; });
  return hardest == quotas.end() ? nullptr : &*hardest;
}

// Returns how much of the thread's waits the quota can explain: at most the time for which it kept
// all threads waiting, and for each period in which it was used up one wait, no longer than the
// period.
int64_t ExplainedNs(const CpuQuota& quota, const Delays& delays) {
  if (!IsMuch(quota)) return 0;
  const double periods_ns =
      static_cast<double>(quota.throttled_periods) * static_cast<double>(quota.period_ns);
  const double most_ns = std::min(periods_ns, static_cast<double>(quota.throttled_ns));
  const int64_t longest_ns = delays.LongestNs(quota.throttled_periods);
  return static_cast<int64_t>(std::min(most_ns, static_cast<double>(longest_ns)));
}

std::string Capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

void TellThrottling(const Case& job, const CpuQuota& quota, const Delays& delays,
                    Finding* finding) {
  finding->kind = FindingKind::kThrottling;
  const bool is_nearly_all = 5 * ExplainedNs(quota, delays) >= 4 * finding->ns;
  finding->certainty = is_nearly_all ? Certainty::kMeasured : Certainty::kLikely;
  finding->what = DriverText(job) + " is kept from running by a quota of CPU time (throttling)";
  finding->evidence.push_back(Capital(QuotaText(quota)) + "; threads were kept waiting for " +
                              DurationText(quota.throttled_ns) +
                              " then, the CPUs' times added up, by the kernel's own count.");
  const uint64_t waits = std::min<uint64_t>(quota.throttled_periods, delays.in_steps.size());
  finding->evidence.push_back("The thread's " + CountText(waits, "longest wait", "longest waits") +
                              " for a CPU, one a period, took " +
                              DurationText(delays.LongestNs(waits)) + ".");
  finding->evidence.emplace_back(
      "A larger quota (cpu.max, limits.cpu of a Kubernetes pod, --cpus of docker), or fewer "
      "threads "
      "and DataLoader workers, would let it go on.");
}

// Returns the sentence for recorded processes that leave CPUs to others.
std::string OthersText(const Delays& delays, const CpuUse& use, const AllowedCpus& allowed,
                       bool is_quota_known) {
  if (allowed.is_masked()) {
    return "Other programs have the rest of these CPUs: more CPUs for the job, or fewer programs "
           "on them, would help.";
  }
  if (is_quota_known && use.busy > 1) {
    return "The recorded processes leave CPUs to others: other programs (proftrace is one) keep it "
           "from them, or other threads of theirs do that must share a CPU with it (a CPU mask of "
           "the job, or of threads).";
  }
  if (is_quota_known && allowed.is_known) {
    return "The recorded processes leave CPUs to others: other programs (proftrace is one) keep it "
           "from them.";
  }
  if (is_quota_known) {
    return "The recorded processes leave CPUs to others: other programs (proftrace is one), or a "
           "CPU mask of the job, keep it from them.";
  }
  if (delays.middle_ns() <= 10'000'000) {
    return "The recorded processes leave CPUs to others: other programs, or a CPU mask or quota of "
           "the job, keep it from them.";
  }
  return "It waited " + DurationText(delays.middle_ns()) +
         " at a time (median): look at the CPU quota of the job's cgroup (cpu.max), and at what "
         "else runs on these CPUs.";
}

void TellWakeUps(const Case& job, const Delays& delays, Finding* finding) {
  finding->what = DriverText(job) + " was woken up, and did not run yet";
  finding->evidence.push_back(absl::StrFormat(
      "It was woken up %.1f times a step, and ran %s later (mean): waking up takes so long, and no "
      "other program need be in its way. A job that sleeps and waits less often is woken up less "
      "often.",
      static_cast<double>(delays.wake_ups) / static_cast<double>(job.steps()),
      DurationText(delays.wake_up_ns / static_cast<int64_t>(delays.wake_ups))));
}

// A loop that yields is preempted between two yields as well.
constexpr int64_t kYieldsPart = 3;

// Makes the finding one about sched_yield() if the thread waited for a CPU because it gave its own
// away by that, for a third of the time or more. Returns whether it is.
bool TellYields(const Case& job, const ThreadEvents& events, Finding* finding) {
  int64_t yielded_ns = 0;
  uint64_t yields = 0;
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (event.kind != SystemKind::kOffCpu || !job.parts.IsIn(StepPart::kRunQueue, event.start_ns)) {
      continue;
    }
    const SystemEvent* const call = CallAround(job.timeline, event);
    if (call == nullptr || SystemEventName(*call) != "sched_yield") continue;
    yielded_ns += event.duration_ns;
    ++yields;
  }
  if (kYieldsPart * yielded_ns < finding->ns) return false;
  finding->what = DriverText(job) + " gives its CPU away (sched_yield), and waits until it has one";
  finding->evidence.push_back(
      absl::StrFormat("It lost the CPU by that %.1f times a step. %s",
                      static_cast<double>(yields) / static_cast<double>(job.steps()), kYields));
  AddPython(job, StepPart::kRunQueue, finding);
  return true;
}

}  // namespace

std::optional<Finding> FindRunQueue(const Case& job) {
  Finding finding;
  finding.kind = FindingKind::kRunQueue;
  finding.ns = job.parts.of(StepPart::kRunQueue);
  finding.what = DriverText(job) + " could run, and had no CPU";
  const Timeline& timeline = job.timeline;
  const ThreadEvents events(timeline);
  const Delays delays = DelaysOf(job, events);
  const std::optional<std::vector<CpuQuota>> quotas = ThrottlingOf(timeline.info(), job.parts.pid);
  const CpuQuota* hardest = quotas.has_value() ? HardestOf(*quotas) : nullptr;
  if (hardest != nullptr && 2 * ExplainedNs(*hardest, delays) >= finding.ns) {
    TellThrottling(job, *hardest, delays, &finding);
    return finding;
  }
  if (TellYields(job, events, &finding)) return finding;
  const CpuUse use = UseOf(job, events);
  const AllowedCpus allowed = AllowedFor(timeline.info(), job.parts.pid);
  std::string text = absl::StrFormat("Together the recorded processes had %.1f ", use.on_cpu) +
                     AllowedText(allowed, timeline.info().host.cpus);
  if (use.busy > 0) {
    text += "; " + CountText(use.busy, "thread of theirs", "threads of theirs") +
            " worked more than a tenth of the time";
  }
  if (use.wanted > kMuchMore * std::max(use.on_cpu, 0.1)) {
    text += absl::StrFormat("; with those that waited for one, they wanted %.1f", use.wanted);
  }
  finding.evidence.push_back(text + ".");
  const bool wants_more = use.wanted > kMuchMore * allowed.count;
  if (allowed.count > 0 && use.on_cpu < 0.75 * allowed.count && !wants_more) {
    finding.certainty = Certainty::kLikely;
    if (delays.AreWakeUps()) {
      TellWakeUps(job, delays, &finding);
      return finding;
    }
    finding.evidence.push_back(OthersText(delays, use, allowed, quotas.has_value()));
  } else if (allowed.count > 0) {
    finding.evidence.push_back(
        std::string("The recorded processes themselves want more CPUs than ") +
        (allowed.is_masked() ? "they may use: more CPUs for the job, fewer threads "
                             : "there are: fewer threads ") +
        "(torch.set_num_threads, OMP_NUM_THREADS) or fewer DataLoader workers would leave it one.");
    if (use.rival.has_value()) {
      finding.evidence.push_back(Capital(ThreadPlaceText(timeline, *use.rival, job.parts.pid)) +
                                 absl::StrFormat(" worked most beside it, for %.0f %% of the time.",
                                                 100 * use.rival_part));
      AddPlaces(job, {{*use.rival, job.parts.intervals}}, "It", &finding);
    }
  }
  if (hardest != nullptr) {
    const int64_t may_ns = std::min(ExplainedNs(*hardest, delays), finding.ns);
    finding.evidence.push_back(
        Capital(QuotaText(*hardest)) +
        (may_ns == 0 ? ": that is not what it waited for."
                     : ": that can be " + PercentText(may_ns, finding.ns) + " of it at the most."));
  } else if (quotas.has_value()) {
    finding.evidence.emplace_back("No control group of the job has a quota of CPU time.");
  }
  return finding;
}

std::string ThrottlingRemark(const Case& job) {
  const std::optional<std::vector<CpuQuota>> quotas =
      ThrottlingOf(job.timeline.info(), job.parts.pid);
  const CpuQuota* hardest = quotas.has_value() ? HardestOf(*quotas) : nullptr;
  if (hardest == nullptr || !IsMuch(*hardest)) return "";
  return Capital(QuotaText(*hardest)) + ": threads of the job were kept waiting for " +
         DurationText(hardest->throttled_ns) + " in all by that.";
}

}  // namespace proftrace
