// Runs the reading of a target in workers without rights.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "symbols/plan/file_facts.h"
#include "symbols/plan/plan_codec.h"
#include "symbols/plan/planner.h"
#include "symbols/plan/target_answers.h"
#include "symbols/process/read_budget.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// The longest wait for file systems that are programs or on other machines: enough to read one with
// cold caches.
constexpr int64_t kLongestWaitNs = 60'000'000'000;
constexpr int64_t kNsInSecond = 1'000'000'000;

bool IsStopped(const PlanOptions& options) {
  return options.stop != nullptr && options.stop->load();
}

}  // namespace

absl::StatusOr<ProbePlan> BuildProbePlan(Pid pid, const PlanOptions& options) {
  // Limits the time that this process waits, for the worker, for file systems that are programs or
  // on other machines.
  ReadBudget budget({.waiting_ns = kLongestWaitNs, .stop = options.stop});
  const ReadBudget::Scope scope(&budget);
  KeptFacts facts(options);
  TargetAnswers answers(pid, &facts);
  WorkerOrder order;
  order.what = absl::StrCat("reads PID ", Raw(pid));
  // The worker's limit is later than the reading's, whose end the plan's gaps explain.
  order.longest_s = std::max(options.longest_reading_ns, int64_t{0}) / kNsInSecond + 10;
  order.stop = options.stop;
  const absl::StatusOr<std::string> bytes = RunWorker(
      order,
      [&](WorkerChannel* channel) -> absl::StatusOr<std::string> {
        AskForEntries(channel);
        const absl::StatusOr<ProbePlan> plan = BuildPlanInWorker(pid, options, channel);
        if (!plan.ok()) return plan.status();
        return EncodePlan(*plan);
      },
      [&](std::string_view question) { return answers.Answer(question); });
  if (IsStopped(options)) {
    return Fail(ExitCode::kNoTarget, absl::StrCat("proftrace was asked to end before PID ",
                                                  Raw(pid), " was read: nothing was recorded"));
  }
  if (!bytes.ok()) return bytes.status();
  std::optional<ProbePlan> plan =
      DecodePlan(*bytes, [&](const FileState& state) { return answers.Held(state); });
  if (plan) return *std::move(plan);
  return Fail(ExitCode::kBug, absl::StrCat("what the process that reads PID ", Raw(pid),
                                           " found is no plan; please report it"));
}

}  // namespace proftrace
