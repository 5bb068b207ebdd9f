// The rule about torch.compile compiling again in the loop, by TorchDynamo's own rows. TorchDynamo
// looks for code that fits the inputs, and runs that code in a row of its own. Where there was no
// such code, it compiles between the two:
//
//   | TorchDynamo Cache Lookup |  compiles: what runs there is its own  | Torch-Compiled Region:
//   0/7 |
//
// The number behind the slash grows with each version of the same code.
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

constexpr std::string_view kDynamoLookup = "TorchDynamo Cache Lookup";
constexpr std::string_view kCompiledRegion = "Torch-Compiled Region: ";
// Existing code is run within microseconds, while the fastest compilations take tens of
// milliseconds.
constexpr int64_t kLeastCompilingNs = 1'000'000;
// Compiling in fewer steps is normal at the begin of a job, or due to a rare input.
constexpr size_t kFewestCompilingSteps = 3;

struct Compilations {
  TimeIntervals all;
  std::set<size_t> steps;  // in which they were
  LabelId last{};
};

// Returns the compilations of the driving thread, except in the first step, because a job that
// begins compiles there.
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
    const std::optional<size_t> step = job.parts.StepAt(span.start_ns - 1);
    if (!step.has_value() || *step == 0) return;
    found.all.emplace_back(start_ns, span.start_ns);
    found.steps.insert(*step);
    found.last = span.label;
  });
  return found;
}

}  // namespace

std::optional<Finding> FindRecompilation(const Case& job, PartTimes* taken) {
  if (!job.parts.are_steps) return std::nullopt;
  const Compilations found = FindCompilations(job);
  if (found.steps.size() < kFewestCompilingSteps) return std::nullopt;
  *taken = job.parts.TimesIn(found.all);
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
