#include "userspace/capture/processes/loading_process.h"

#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/capture/targets/target_words.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {
namespace {

// How long nothing must have been loaded or registered. The next thing that the process does may be
// its work, so this is short.
constexpr int64_t kSettledNs = 60'000'000;
// How long that must be for a process of which nothing may be missed: a C++ program begins its work
// some 0.1 s after its libraries have registered their operators, a Python program 0.3 s or more.
constexpr int64_t kHeldSettledNs = 15'000'000;
// The time for a process that has no Python binding of torch although it runs Python.
constexpr int64_t kNoBindingNs = 2'000'000'000;
// The time for a process whose Dispatcher cannot be read, because registering may take this long on
// a busy host.
constexpr int64_t kNoOperatorsNs = 10'000'000'000;
// The most CPU time for making all plans of one process; an import takes some seconds.
constexpr int64_t kMostCpuNs = 60'000'000'000;
// The time between two tries to find the Dispatcher.
constexpr int64_t kRetryNs = 100'000'000;
constexpr int64_t kHeldRetryNs = 5'000'000;
// A process that registers operators for ever is recorded after this time.
constexpr int64_t kLongestLoadNs = 60'000'000'000;

}  // namespace

bool LoadingProcess::HasSettled(int64_t now_ns, bool hold) const {
  // A Python process loads torch's Python binding last.
  const bool has_binding = plan_->python_version.empty() || plan_->python_node_vtable != 0;
  const int64_t enough_ns = !has_operators() ? kNoOperatorsNs
                            : !has_binding   ? kNoBindingNs
                            : hold           ? kHeldSettledNs
                                             : kSettledNs;
  return now_ns - changed_ns_ >= enough_ns || now_ns - first_ns_ >= kLongestLoadNs;
}

absl::Status LoadingProcess::Plan(Pid pid, const PlanOptions& options) {
  plan_.reset();
  // A process that loads and unloads libraries for ever would be read again and again, so that time
  // is limited.
  PlanOptions left = options;
  left.longest_reading_ns = std::min(options.longest_reading_ns, kMostCpuNs - read_cpu_ns_);
  if (left.longest_reading_ns <= 0) {
    return Fail(ExitCode::kHostUnfit,
                "PID " + std::to_string(Raw(pid)) +
                    " changes its libraries all the time: reading them has taken " +
                    std::to_string(kMostCpuNs / 1'000'000'000) + " s of processor time");
  }
  const int64_t began_ns = MonotonicNs();
  const int64_t begin_cpu_ns = ThreadCpuNs() + WorkerCpuNs();
  absl::StatusOr<ProbePlan> plan = BuildProbePlan(pid, left);
  read_cpu_ns_ += ThreadCpuNs() + WorkerCpuNs() - begin_cpu_ns;
  planned_ns_ = MonotonicNs();
  is_old_ = false;
  // PyTorch is only partly loaded, so there is no plan yet.
  if (ExitCodeOf(plan.status()) == ExitCode::kNoTorch) return absl::OkStatus();
  if (!plan.ok()) return plan.status();
  last_operator_ = AskLastOperator(reader_, pid, /*image=*/0, *plan);
  plan_ = *std::move(plan);
  if (could_run_ns_ == 0 && has_operators()) {
    could_run_ns_ = looked_ns_ != 0 ? looked_ns_ : began_ns;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> LoadingProcess::IsReady(Pid pid, const PlanOptions& options, bool hold) {
  const int64_t now_ns = MonotonicNs();
  auto is_ready = IsReadyNow(pid, options, hold);
  looked_ns_ = now_ns;
  return is_ready;
}

absl::StatusOr<std::optional<ProbePlan>> LoadingProcess::TakePlan(Pid pid,
                                                                  const PlanOptions& options) {
  if (is_old_) {
    if (absl::Status status = Plan(pid, options); !status.ok()) return status;
  }
  return std::exchange(plan_, std::nullopt);
}

absl::Status LoadingProcess::PlanNow(Pid pid, const PlanOptions& options, bool hold) {
  absl::Status status;
  const auto plan = [&](StoppedThreads*) { status = Plan(pid, options); };
  if (hold) {
    StoppedThreads::WhileHeld(pid, plan);
  } else {
    plan(nullptr);
  }
  return status;
}

absl::StatusOr<bool> LoadingProcess::IsReadyNow(Pid pid, const PlanOptions& options, bool hold) {
  const uint32_t mappings = CountTorchMappings(pid);
  if (mappings == 0) return false;
  if (mappings != mappings_) {
    mappings_ = mappings;
    const absl::Status status = PlanNow(pid, options, hold);
    changed_ns_ = planned_ns_;
    if (first_ns_ == 0) first_ns_ = planned_ns_;
    if (!status.ok()) return status;
    return false;
  }
  if (!plan_.has_value()) return false;
  const int64_t now_ns = MonotonicNs();
  // The Dispatcher is made, and filled, some time after its library is mapped.
  const bool has_more =
      plan_->dispatcher_slot == 0 || (is_old_ && (hold || now_ns - changed_ns_ >= kSettledNs));
  const int64_t retry_ns = hold ? kHeldRetryNs : kRetryNs;
  if (!has_operators() && has_more && now_ns - planned_ns_ >= retry_ns) {
    if (absl::Status status = PlanNow(pid, options, hold); !status.ok()) return status;
    if (!plan_.has_value()) return false;
    if (has_operators()) changed_ns_ = planned_ns_;
  }
  if (const uint64_t last = AskLastOperator(reader_, pid, /*image=*/0, *plan_);
      last != last_operator_) {
    last_operator_ = last;
    changed_ns_ = now_ns;
    is_old_ = true;
  }
  return HasSettled(now_ns, hold);
}

}  // namespace proftrace
