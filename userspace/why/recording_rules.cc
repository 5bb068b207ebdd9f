// Rules about what the recording itself took of the steps' time.
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

// From this part of all time on, hits of probes and jumps are told.
constexpr int64_t kDearPart = 10;
// What records cost is known to about this part of it.
constexpr int64_t kKnownTo = 5;
// An uncertainty of this part of what is told is worth telling.
constexpr int64_t kUncertainPart = 5;

// Returns the time that would be left, with its uncertainty where that is large.
std::string WithoutText(int64_t without_ns, int64_t records_ns) {
  const int64_t uncertain_ns = records_ns / kKnownTo;
  std::string text = DurationText(without_ns);
  if (uncertain_ns * kUncertainPart < without_ns) return text;
  return text + " (give or take " + DurationText(uncertain_ns) + ")";
}

}  // namespace

std::optional<Finding> FindSystemRecords(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kRecording, StepPart::kRecording,
                              "proftrace itself writes a record of each page fault, system call "
                              "and time off the CPU");
  finding.certainty = Certainty::kLikely;
  uint64_t faults = 0;
  uint64_t others = 0;
  const ThreadEvents events(job.timeline);
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (job.parts.At(event.end_ns()) == nullptr) continue;
    ++(event.kind == SystemKind::kFault ? faults : others);
  }
  const int64_t without_ns = job.AStep(job.parts.total_ns - finding.ns);
  finding.evidence.push_back(
      absl::StrFormat("%s, %s of the others a step. Without them %s would take about %s, so that "
                      "the other findings are a larger part of it.",
                      CountText(faults / job.steps(), "record", "records") + " of faults",
                      CountText(others / job.steps(), "record", "records"),
                      job.parts.are_steps ? "a step" : "all of it",
                      WithoutText(without_ns, job.AStep(finding.ns))));
  finding.evidence.emplace_back("Fewer --activities cost less.");
  return finding;
}

std::optional<Finding> FindRecording(const Case& job) {
  const Timeline& timeline = job.timeline;
  const Cost& cost = timeline.info().cost;
  if (!timeline.info().has_end) return std::nullopt;
  uint64_t in_steps = 0;
  ForEachSpan(timeline, [&](SpanId, const Span& span) {
    if (span.thread == job.parts.thread && job.parts.At(span.start_ns) != nullptr) ++in_steps;
  });
  const double hits_ns = static_cast<double>(cost.probe_hits) * cost.probe_ns_per_hit +
                         static_cast<double>(cost.jumps) * cost.ns_per_jump;
  Finding finding;
  finding.kind = FindingKind::kRecording;
  finding.certainty = Certainty::kLikely;
  // What all threads' hits took, as much of it as of the rows is in steps of this thread.
  finding.ns = static_cast<int64_t>(hits_ns * static_cast<double>(in_steps) /
                                    std::max(1.0, static_cast<double>(timeline.span_count())));
  if (finding.ns * kDearPart < job.parts.total_ns) return std::nullopt;
  finding.what = "proftrace itself: what it records makes the job slower";
  finding.evidence.push_back(
      cost.jumps > 0
          ? "Small operators look longer by that than they are; --max-overhead keeps it below a "
            "limit."
          : "Small operators look longer by that than they are. 'proftrace record --tier patch' "
            "records the same for a fraction of it; --max-overhead keeps it below a limit.");
  return finding;
}

}  // namespace proftrace
