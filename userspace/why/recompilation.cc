// torch.compile that compiles again in the loop, by the rows that TorchDynamo itself makes: it
// looks for code that fits the inputs, and runs that code as a row of its own. Between the two it
// compiles where there was none:
//
//   | TorchDynamo Cache Lookup |  compiles: what runs there is its own  | Torch-Compiled Region:
//   0/7 |
//
// The number behind the slash grows with each version of the same code.
#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

constexpr std::string_view kDynamoLookup = "TorchDynamo Cache Lookup";
constexpr std::string_view kCompiledRegion = "Torch-Compiled Region: ";
// Code that was there is run within microseconds; the fastest compilations take tens of
// milliseconds.
constexpr int64_t kLeastCompilingNs = 1'000'000;
// Compiling in fewer steps is how a job begins, or a rare input.
constexpr size_t kFewestCompilingSteps = 3;

struct Compilation {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct Compilations {
  std::vector<Compilation> all;  // in order, without overlaps
  std::set<size_t> steps;        // in which they were
  LabelId last{};
};

// Returns the step that the time lies in; nullopt: none.
std::optional<size_t> StepAt(const StepParts& parts, int64_t time_ns) {
  const auto after = std::upper_bound(
      parts.intervals.begin(), parts.intervals.end(), time_ns,
      [](int64_t time, const std::pair<int64_t, int64_t>& step) { return time < step.second; });
  if (after == parts.intervals.end() || time_ns < after->first) return std::nullopt;
  return static_cast<size_t>(after - parts.intervals.begin());
}

// Returns those of the driving thread, but for the first step's: a job that begins compiles there.
Compilations FindCompilations(const Case& job) {
  std::vector<bool> is_region, is_lookup;
  for (const Label& label : job.timeline.labels()) {
    is_region.push_back(label.name.starts_with(kCompiledRegion));
    is_lookup.push_back(label.name == kDynamoLookup);
  }
  Compilations found;
  std::set<uint32_t> seen;  // versions that have run before
  int64_t looked_up_ns = std::numeric_limits<int64_t>::max();
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    if (span.thread != job.parts.thread || span.is_apart) return;
    if (is_lookup[Raw(span.label)]) looked_up_ns = span.end_ns();
    if (!is_region[Raw(span.label)] || !seen.insert(Raw(span.label)).second) return;
    const int64_t start_ns = std::exchange(looked_up_ns, std::numeric_limits<int64_t>::max());
    if (start_ns > span.start_ns - kLeastCompilingNs) return;
    const std::optional<size_t> step = StepAt(job.parts, span.start_ns - 1);
    if (!step.has_value() || *step == 0) return;
    found.all.push_back({start_ns, span.start_ns});
    found.steps.insert(*step);
    found.last = span.label;
  });
  return found;
}

// What of the parts' time lies in compilations.
PartTimes TimesIn(const std::vector<Compilation>& all, const std::vector<PartMoment>& moments) {
  PartTimes times{};
  auto moment = moments.begin();
  for (const Compilation& one : all) {
    while (moment != moments.end() && moment->end_ns <= one.start_ns) ++moment;
    for (auto at = moment; at != moments.end() && at->start_ns < one.end_ns; ++at) {
      times[static_cast<size_t>(at->part)] +=
          std::min(at->end_ns, one.end_ns) - std::max(at->start_ns, one.start_ns);
    }
  }
  return times;
}

}  // namespace

std::optional<Finding> FindRecompilation(const Case& job, PartTimes* taken) {
  if (!job.parts.are_steps) return std::nullopt;
  const Compilations found = FindCompilations(job);
  if (found.steps.size() < kFewestCompilingSteps) return std::nullopt;
  *taken = TimesIn(found.all, job.parts.moments);
  Finding finding;
  finding.kind = FindingKind::kRecompilation;
  for (const int64_t ns : *taken) finding.ns += ns;
  finding.what = DriverText(job) + " has torch.compile compile again and again";
  finding.evidence.push_back(CountText(found.all.size(), "compilation", "compilations") + " in " +
                             std::to_string(found.steps.size()) + " of the " +
                             std::to_string(job.steps() - 1) + " steps after the first one, " +
                             DurationText(finding.ns / static_cast<int64_t>(found.all.size())) +
                             " each; the last one was " +
                             ShownText(job.timeline.label(found.last).name) + ".");
  finding.evidence.emplace_back(
      "Each version is for inputs of some shapes, types and numbers of Python, and the next inputs "
      "did not fit: TORCH_LOGS=recompiles has the job say which of them, dynamic=True or "
      "torch._dynamo.mark_dynamic() makes one version for all sizes.");
  return finding;
}

}  // namespace proftrace
