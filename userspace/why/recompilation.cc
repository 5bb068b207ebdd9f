// The rule about torch.compile compiling again in the loop.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "userspace/aggregate/compilations.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

// Compiling in fewer steps is normal at the begin of a job, or due to a rare input.
constexpr size_t kFewestCompilingSteps = 3;

struct LoopCompilations {
  TimeIntervals all;
  std::set<size_t> steps;  // in which they were
  LabelId last{};
};

// Returns the compilations of the driving thread, except in the first step, because a job that
// begins compiles there.
LoopCompilations CompilationsOf(const Case& job) {
  const std::vector<std::vector<Compilation>> all = FindCompilations(job.timeline);
  LoopCompilations found;
  if (all.empty()) return found;
  for (const Compilation& one : all[Raw(job.parts.thread)]) {
    const std::optional<size_t> step = job.parts.StepAt(one.end_ns - 1);
    if (!step.has_value() || *step == 0) continue;
    found.all.emplace_back(one.start_ns, one.end_ns);
    found.steps.insert(*step);
    found.last = one.region;
  }
  return found;
}

}  // namespace

std::optional<Finding> FindRecompilation(const Case& job, PartTimes* taken) {
  if (!job.parts.are_steps) return std::nullopt;
  const LoopCompilations found = CompilationsOf(job);
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
