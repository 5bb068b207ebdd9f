#include "userspace/why/verdict.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <utility>

#include "userspace/base/median.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

using Rule = std::optional<Finding> (*)(const Case&);

constexpr std::array<Rule, kStepParts> kPartRules = {
    FindDataLoader,    FindCollection, FindCollectives, FindRunQueue,    FindFaults,
    FindSystemRecords, FindLock,       FindOtherThread, FindIo,          FindOtherWaits,
    FindSynchronizing, FindOperators,  FindPython,      FindBetweenSteps};

// Rules about causes that take time from several parts, or only some of a part's time.
using CrossRule = std::optional<Finding> (*)(const Case&, PartTimes*);
constexpr std::array<CrossRule, 3> kCrossRules = {FindRecompilation, FindDeviceAllocator, FindGil};

// With fewer steps a sentence about "the steps" would describe chance.
constexpr size_t kFewSteps = 3;
// The mean is told if it differs from the median by a larger part of that. Otherwise the times and
// shares of findings, which are parts of the mean, would not fit to the median beside them.
constexpr double kUneven = 0.03;

std::string AboutText(const Case& job, int64_t median_ns) {
  if (!job.parts.are_steps) {
    return "No steps were found: this is about the window of " + DurationText(job.parts.total_ns) +
           " as a whole, on the first thread of the job.";
  }
  // The mean is told because the times of findings are means.
  const int64_t mean_ns = job.parts.total_ns / job.steps();
  const auto off_ns = static_cast<double>(std::abs(mean_ns - median_ns));
  if (off_ns > kUneven * static_cast<double>(median_ns)) {
    return absl::StrFormat("Steps take %s on average, and differ: the median of %d is %s.",
                           DurationText(mean_ns), job.steps(), DurationText(median_ns));
  }
  return absl::StrFormat("Steps take %s (median of %d).", DurationText(median_ns), job.steps());
}

// Returns a sentence on what a step is, where it has several calls of the optimizer; empty: it has
// not.
std::string RoundText(const Case& job) {
  const Steps& steps = job.aggregates.steps;
  if (!job.parts.are_steps || !steps.main.has_value()) return "";
  const std::string& how = steps.processes[*steps.main].how;
  return Contains(how, " a round") ? " A step is a round of the loop (" + how + ")." : "";
}

// Returns a sentence on the process that the verdict is about, where others have steps as well;
// empty: there are no others.
std::string ProcessText(const Case& job) {
  const size_t processes = job.aggregates.steps.processes.size();
  if (!job.parts.are_steps || processes < 2) return "";
  std::string text = " This is about ";
  for (const Target& target : job.timeline.info().targets) {
    if (target.pid == job.parts.pid && target.rank.has_value()) {
      text += "rank " + std::to_string(*target.rank) + ", ";
    }
  }
  return text + absl::StrFormat("PID %d, one of %d processes that have steps.", Raw(job.parts.pid),
                                processes);
}

// Returns the waits that belong to parts which are about waits: those between steps, or in the
// DataLoader, say nothing about the others.
std::vector<WaitSum> WaitsOf(const Timeline& timeline, const StepParts& parts) {
  if (!parts.has_kernel) return {};
  return SumWaits(timeline, [&parts](const SystemEvent& event) {
    if (event.thread != parts.thread) return false;
    const PartMoment* moment = parts.At(event.start_ns);
    return moment != nullptr && moment->part != StepPart::kData &&
           moment->part != StepPart::kCollection && moment->part != StepPart::kCollective &&
           moment->part != StepPart::kBetween;
  });
}

// Keeps the findings that are worth a sentence, the largest first. What the recording took, and
// findings whose time is part of others', come last.
void Rank(Verdict* verdict) {
  std::vector<Finding>& findings = verdict->findings;
  std::erase_if(findings, [&](const Finding& finding) {
    return !IsWorthTelling(finding.ns, verdict->total_ns);
  });
  // Time that is in no other finding is told before time that is.
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if (a.is_cause() != b.is_cause()) return a.is_cause();
    if (a.is_part_of_others() != b.is_part_of_others()) return b.is_part_of_others();
    return a.ns > b.ns;
  });
  const auto besides =
      std::find_if_not(findings.begin(), findings.end(), std::mem_fn(&Finding::is_cause));
  // One of those that come last has a place; the others have what the causes leave.
  const auto causes = besides - findings.begin();
  const ptrdiff_t most =
      static_cast<ptrdiff_t>(kMostFindings) - std::min<ptrdiff_t>(1, findings.end() - besides);
  if (causes > most) findings.erase(findings.begin() + most, besides);
  if (findings.size() > kMostFindings) findings.resize(kMostFindings);
}

// Adds to a finding that one step has most of its time.
void AddLoneStep(const Case& job, StepPart part, Finding* finding) {
  const std::vector<PartTimes>& steps = job.parts.by_step;
  if (!job.parts.are_steps || steps.size() < kFewestStepsToCompare) return;
  const auto ns_of = [part](const PartTimes& step) { return step[static_cast<size_t>(part)]; };
  const auto most =
      std::max_element(steps.begin(), steps.end(),
                       [&](const PartTimes& a, const PartTimes& b) { return ns_of(a) < ns_of(b); });
  const int64_t all_ns = job.parts.of(part);
  if (2 * ns_of(*most) <= all_ns) return;
  const auto others = static_cast<int64_t>(steps.size() - 1);
  finding->evidence.push_back(
      PercentText(ns_of(*most), all_ns) + " of that time is in " +
      (most == steps.begin() ? "the first step alone, as where a job still starts"
                             : "one step alone") +
      ": the others have " + DurationText((all_ns - ns_of(*most)) / others) + " of it each.");
}

// Adds the findings of the parts. The time of each part belongs to one finding, except the time
// that kCrossRules take out of several parts.
void AddFindingsOfParts(const Case& job, Verdict* verdict) {
  PartTimes taken{};
  for (const CrossRule rule : kCrossRules) {
    PartTimes of_finding{};
    std::optional<Finding> finding = rule(job, &of_finding);
    if (!finding.has_value()) continue;
    // Time that belongs to two of these findings counts for the first one.
    for (size_t part = 0; part < kStepParts; ++part) {
      const int64_t left_ns = job.parts.sum[part] - taken[part];
      finding->ns -= std::max<int64_t>(0, of_finding[part] - left_ns);
      taken[part] += std::min(of_finding[part], left_ns);
    }
    verdict->findings.push_back(*std::move(finding));
  }
  for (size_t part = 0; part < kStepParts; ++part) {
    if (!IsWorthTelling(job.parts.sum[part] - taken[part], job.parts.total_ns)) continue;
    std::optional<Finding> finding = kPartRules[part](job);
    if (!finding.has_value()) continue;
    finding->ns -= taken[part];
    finding->part = static_cast<StepPart>(part);
    AddLoneStep(job, *finding->part, &*finding);
    verdict->findings.push_back(*std::move(finding));
  }
}

// Adds remarks about the CPU, where findings are parts of the device's time.
void AddRemarksOfCpu(const Case& job, Verdict* verdict) {
  for (const auto rule : {FindRecompilation, FindDeviceAllocator}) {
    PartTimes taken{};
    const std::optional<Finding> finding = rule(job, &taken);
    if (!finding.has_value() || !IsWorthTelling(finding->ns, job.parts.total_ns)) continue;
    verdict->remarks.push_back("On the CPU " + finding->what + ": " + finding->evidence.front());
  }
}

// Returns a sentence on steps of other threads of the process; empty: there are none.
std::string OtherStepsRemark(const Case& job) {
  if (!job.parts.are_steps) return "";
  const ProcessSteps& process = job.aggregates.steps.processes[*job.aggregates.steps.main];
  if (process.others.empty()) return "";
  const auto most = std::max_element(
      process.others.begin(), process.others.end(),
      [](const ThreadSteps& a, const ThreadSteps& b) { return a.steps.size() < b.steps.size(); });
  return CountText(process.others.size(), "other thread has", "other threads have") +
         " steps as well, " + ThreadPlaceText(job.timeline, most->thread, job.parts.pid) + " " +
         std::to_string(most->steps.size()) + " of " + DurationText(most->median_ns) +
         ": this is about " + DriverText(job) + " alone.";
}

// Returns the reasons that the recording gives for lacking most rows of a process, one sentence
// each.
std::vector<std::string> ReasonsForNoRows(const RecordingInfo& info) {
  std::vector<std::string> reasons;
  for (const Unsupported& gap : info.unsupported) {
    if (gap.feature == "jumps in the job's code" || gap.feature == "code that no probe reaches" ||
        gap.feature == "rows of processes that ran") {
      reasons.push_back(ShownText(gap.reason) + ".");
    }
  }
  return reasons;
}

// Returns why there is no verdict, one sentence each.
std::vector<std::string> WhyNothing(const RecordingInfo& info) {
  std::vector<std::string> reasons = {
      "There is no time to give reasons for. Where the thread waits all the time, 'proftrace dump "
      "-p PID' shows for what, and --activities cpu,sched,syscalls records it."};
  for (std::string& reason : ReasonsForNoRows(info)) reasons.push_back(std::move(reason));
  return reasons;
}

// Adds the function that has more of the time than any of the findings.
void AddOwnPlace(const Case& job, Verdict* verdict) {
  int64_t largest_ns = 0;
  for (const Finding& finding : verdict->findings) {
    if (finding.is_cause()) largest_ns = std::max(largest_ns, finding.ns);
  }
  const std::string place = OwnPlaceText(job, largest_ns);
  if (!place.empty()) verdict->about += " " + place;
}

void AddLosses(const Timeline& timeline, std::vector<std::string>* remarks) {
  if (timeline.any_record_lost()) {
    remarks->push_back("Records were lost: times and counts above may be too small.");
  }
  if (const uint64_t children = timeline.ledger().follow_failed; children > 0) {
    remarks->push_back(CountText(children, "child process was", "child processes were") +
                       " not recorded, as where they end at once: what they did is not here.");
  }
}

void AddRemarks(const Case& job, Verdict* verdict) {
  std::vector<std::string>& remarks = verdict->remarks;
  const Timeline& timeline = job.timeline;
  AddLosses(timeline, &remarks);
  if (timeline.info().system.operators &&
      !IsWorthTelling(job.parts.of(StepPart::kOperators), job.parts.total_ns)) {
    for (const std::string& reason : ReasonsForNoRows(timeline.info())) {
      remarks.push_back("Operators may be missing, whose time counts as outside of operators: " +
                        reason);
    }
  }
  if (job.parts.are_steps && 2 * job.parts.total_ns < timeline.info().window.duration_ns) {
    remarks.push_back("The steps take " + DurationText(job.parts.total_ns) +
                      " of the recording's " + DurationText(timeline.info().window.duration_ns) +
                      ": for most of it the thread made no step.");
  }
  if (std::string remark = GrowthRemark(job); !remark.empty()) {
    verdict->growth = remarks.size();
    remarks.push_back(std::move(remark));
  }
  if (job.parts.are_steps && job.steps() < kFewSteps) {
    remarks.push_back("These are few steps: a longer recording tells more.");
  }
  if (job.parts.are_steps) {
    const ProcessSteps& process = job.aggregates.steps.processes[*job.aggregates.steps.main];
    if (process.confidence < kGuessBelow) {
      remarks.push_back("What a step is, is a guess here (confidence " +
                        absl::StrFormat("%.2f", process.confidence) + ").");
    }
  }
  if (std::string remark = OtherStepsRemark(job); !remark.empty()) {
    remarks.push_back(std::move(remark));
  }
  if (timeline.has_sched() && !job.parts.has_kernel) {
    remarks.push_back("What the kernel told was lost in part: waits are not told apart.");
  }
  // FindRunQueue() has told of quotas.
  const auto tells_quotas = [](const Finding& finding) {
    return finding.kind == FindingKind::kThrottling || finding.kind == FindingKind::kRunQueue;
  };
  if (std::none_of(verdict->findings.begin(), verdict->findings.end(), tells_quotas)) {
    if (std::string remark = ThrottlingRemark(job); !remark.empty()) {
      remarks.push_back(std::move(remark));
    }
  }
  if (std::string remark = WatcherRemark(job); !remark.empty()) {
    remarks.push_back(std::move(remark));
  }
  for (std::string& remark : HostRemarks(timeline.info())) remarks.push_back(std::move(remark));
  if (std::string remark = DeviceMemoryRemark(job); !remark.empty()) {
    remarks.push_back(std::move(remark));
  }
  if (verdict->findings.empty()) {
    remarks.push_back("No cause takes a twentieth of the time.");
  }
}

}  // namespace

Verdict FindVerdict(const Timeline& timeline, const Aggregates& aggregates) {
  return FindVerdict(timeline, aggregates, SplitSettledSteps(timeline, aggregates.steps));
}

Verdict FindVerdict(const Timeline& timeline, const Aggregates& aggregates,
                    const std::optional<StepParts>& parts) {
  Verdict verdict;
  if (!parts.has_value()) {
    verdict.about = "Nothing was recorded of the job's first thread.";
    verdict.remarks = WhyNothing(timeline.info());
    return verdict;
  }
  const Case job{timeline, aggregates, *parts, WaitsOf(timeline, *parts)};
  verdict.are_steps = parts->are_steps;
  verdict.total_ns = parts->total_ns;
  if (parts->are_steps) {
    verdict.steps = parts->intervals.size();
    std::vector<int64_t> lengths;
    for (const auto& [start_ns, end_ns] : parts->intervals) lengths.push_back(end_ns - start_ns);
    verdict.median_step_ns = Median(std::move(lengths));
  }
  verdict.about = AboutText(job, verdict.median_step_ns) + RoundText(job) + ProcessText(job);
  if (!FindDevice(job, &verdict)) {
    AddFindingsOfParts(job, &verdict);
    AddOwnPlace(job, &verdict);
  } else {
    AddRemarksOfCpu(job, &verdict);
  }
  for (const Rule rule : {FindUnevenSteps, FindRecording}) {
    if (auto finding = rule(job)) verdict.findings.push_back(*std::move(finding));
  }
  for (Finding& finding : verdict.findings) {
    std::vector<std::string>& evidence = finding.evidence;
    evidence.erase(std::unique(evidence.begin(), evidence.end()), evidence.end());
  }
  Rank(&verdict);
  AddRemarks(job, &verdict);
  return verdict;
}

std::string_view FindingKindName(FindingKind kind) {
  static constexpr std::array<std::string_view, 28> kNames = {"dataloader",
                                                              "collectives",
                                                              "synchronizing",
                                                              "run_queue",
                                                              "faults",
                                                              "lock",
                                                              "other_thread",
                                                              "io",
                                                              "sleep",
                                                              "poll",
                                                              "child",
                                                              "system",
                                                              "collection",
                                                              "one_operator",
                                                              "small_operators",
                                                              "operators",
                                                              "python",
                                                              "uneven_steps",
                                                              "recording",
                                                              "kernels",
                                                              "dispatch",
                                                              "launched",
                                                              "between_steps",
                                                              "recompilation",
                                                              "allocator",
                                                              "throttling",
                                                              "gil",
                                                              "stopped"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view CertaintyName(Certainty certainty) {
  return certainty == Certainty::kMeasured ? "measured" : "likely";
}

}  // namespace proftrace
