// The rule about collectives: where other ranks of the job are in the recording as well, it tells
// which of them entered them last, and what that one did meanwhile.
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/stretches.h"
#include "userspace/model/torch_rules.h"
#include "userspace/why/rules.h"
#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

// A rank is late that has no work under way for so much of the time in which the driver waits. The
// others wait as the driver does, and have works under way all the time.
constexpr double kLate = 0.3;
// From so many collectives a step on, their number is told.
constexpr int64_t kManyWorks = 8;

// Returns `times` without `others`. Both are in order, without overlaps.
TimeIntervals Without(const TimeIntervals& times, const TimeIntervals& others) {
  TimeIntervals left;
  auto other = others.begin();
  for (auto [start_ns, end_ns] : times) {
    while (other != others.end() && other->second <= start_ns) ++other;
    for (auto at = other; at != others.end() && at->first < end_ns; ++at) {
      if (at->first > start_ns) left.emplace_back(start_ns, at->first);
      start_ns = std::max(start_ns, at->second);
    }
    if (start_ns < end_ns) left.emplace_back(start_ns, end_ns);
  }
  return left;
}

// Returns which labels are those of works of collectives, by LabelId.
std::vector<bool> LabelsOfWorks(const Timeline& timeline) {
  std::vector<bool> is_work;
  for (const Label& label : timeline.labels()) is_work.push_back(IsTitleOfWork(label.name));
  return is_work;
}

// Returns when works of collectives were under way, by process; without the driver's own.
std::map<Pid, TimeIntervals> WorksOfOthers(const Case& job) {
  const std::vector<bool> is_work = LabelsOfWorks(job.timeline);
  std::map<Pid, TimeIntervals> works;
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    if (!is_work[Raw(span.label)]) return;
    const Pid pid = job.timeline.thread(span.thread).pid;
    if (pid != job.parts.pid) works[pid].emplace_back(span.start_ns, span.end_ns());
  });
  for (auto& [pid, times] : works) times = UnionOf(std::move(times));
  return works;
}

// Returns the thread that drives the process's steps, or its first thread; nullopt: neither was
// recorded.
std::optional<ThreadIndex> DriverOf(const Case& job, Pid pid) {
  for (const ProcessSteps& process : job.aggregates.steps.processes) {
    if (process.pid == pid) return process.thread;
  }
  const std::vector<Thread>& threads = job.timeline.threads();
  for (uint32_t i = 0; i < threads.size(); ++i) {
    if (threads[i].pid == pid && Raw(threads[i].tid) == Raw(pid)) return ThreadIndex{i};
  }
  return std::nullopt;
}

// Returns "the main thread of process python (PID 12), rank 1,".
std::string RankText(const Case& job, Pid pid, const std::optional<ThreadIndex>& thread) {
  std::string text = thread.has_value() ? ThreadPlaceText(job.timeline, *thread, job.parts.pid)
                                        : "PID " + std::to_string(Raw(pid));
  for (const Target& target : job.timeline.info().targets) {
    if (target.pid == pid && target.rank.has_value()) {
      text += ", rank " + std::to_string(*target.rank) + ",";
    }
  }
  return text;
}

struct LateRank {
  Pid pid{};
  TimeIntervals times;  // the driver waited, and this rank had not entered
  int64_t late_ns = 0;
};

std::optional<LateRank> LatestOf(const std::map<Pid, TimeIntervals>& works,
                                 const TimeIntervals& waits) {
  LateRank latest;
  for (const auto& [pid, times] : works) {
    TimeIntervals late = Without(waits, times);
    const int64_t late_ns = LengthOf(late);
    if (late_ns > latest.late_ns) latest = {pid, std::move(late), late_ns};
  }
  const auto least_ns = static_cast<int64_t>(kLate * static_cast<double>(LengthOf(waits)));
  return latest.late_ns > least_ns ? std::optional(std::move(latest)) : std::nullopt;
}

// What the driver's process has in collectives during the steps.
struct OwnWorks {
  int64_t count = 0;
  int64_t ns = 0;
  std::map<std::string, int64_t> by_name;
};

OwnWorks WorksOfDriver(const Case& job) {
  const std::vector<bool> is_work = LabelsOfWorks(job.timeline);
  OwnWorks works;
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    if (!is_work[Raw(span.label)] || job.timeline.thread(span.thread).pid != job.parts.pid) return;
    if (job.parts.At(span.start_ns) == nullptr) return;
    ++works.count;
    works.ns += span.duration_ns;
    ++works.by_name[job.timeline.label(span.label).name];
  });
  return works;
}

// Adds how many collectives a step has, and the functions that wait for them.
void AddWorksAndPlaces(const Case& job, Finding* finding) {
  const OwnWorks works = WorksOfDriver(job);
  const auto most = LargestValue(works.by_name);
  if (job.parts.are_steps && works.count >= kManyWorks * static_cast<int64_t>(job.steps())) {
    finding->evidence.push_back(absl::StrFormat(
        "There are %d collectives a step, %s most of all, each under way for %s on average. Each "
        "takes a round between the ranks, however small it is: fewer and larger ones take less.",
        works.count / static_cast<int64_t>(job.steps()), ShownText(most->first),
        DurationText(works.ns / works.count)));
  }
  if (AddPlaces(job, StepPart::kCollective, finding) != PythonSource::kSamples &&
      job.timeline.samples().empty()) {
    finding->next = "--sample 99Hz";
  }
}

}  // namespace

std::optional<Finding> FindCollectives(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kCollectives, StepPart::kCollective,
                              DriverText(job) + " waits for collectives with other ranks");
  finding.certainty = Certainty::kLikely;
  const std::map<Pid, TimeIntervals> works = WorksOfOthers(job);
  if (works.empty()) {
    finding.evidence.emplace_back(
        "It was blocked while collectives of this process were under way. Which rank came last is "
        "seen where all ranks are looked at: without --rank and --pid if they are in this "
        "recording, "
        "else 'proftrace merge' compares them.");
    AddWorksAndPlaces(job, &finding);
    return finding;
  }
  const TimeIntervals waits = TimesOf(job, StepPart::kCollective);
  const std::optional<LateRank> latest = LatestOf(works, waits);
  if (!latest.has_value()) {
    finding.evidence.emplace_back(
        "The other ranks of this recording were in collectives meanwhile: what takes the time is "
        "a rank that was not recorded, or the transfer.");
    AddWorksAndPlaces(job, &finding);
    return finding;
  }
  const std::optional<ThreadIndex> thread = DriverOf(job, latest->pid);
  finding.evidence.push_back("For " + PercentText(latest->late_ns, LengthOf(waits)) +
                             " of that time " + RankText(job, latest->pid, thread) +
                             " had not entered the collective.");
  if (thread.has_value()) AddMeanwhile(job, latest->times, *thread, &finding);
  return finding;
}

}  // namespace proftrace
