#include "userspace/capture/processes/awaited_processes.h"

#include <unistd.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "symbols/plan/process.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/targets/target_info.h"

namespace proftrace {
namespace {

// The time between two searches where the kernel does not report processes that load PyTorch.
constexpr int64_t kSearchIntervalNs = 1'000'000'000;

}  // namespace

absl::Status AwaitedProcesses::AwaitOwn(Pid pid) {
  if (absl::Status status = attacher_->Trace(pid); !status.ok()) return status;
  holds_awaited_ = true;
  shared_->known.Await(pid);
  return absl::OkStatus();
}

void AwaitedProcesses::OnTorchMapped(Pid pid) {
  if (Raw(pid) == static_cast<uint32_t>(getpid()) || !shared_->known.AwaitNew(pid)) return;
  // The kernel must report the end of the process, too.
  if (absl::Status status = attacher_->Trace(pid); !status.ok()) {
    shared_->known.Refuse(pid, status);
  }
}

void AwaitedProcesses::LookForTorch(const TorchProcesses& found, bool again) {
  for (const Pid pid : found.pids) OnTorchMapped(pid);
  searches_ = again;
  shared_->gaps.AddSearch(found, again);
}

void AwaitedProcesses::Search() {
  const int64_t now_ns = MonotonicNs();
  if (!searches_ || now_ns - last_search_ns_ < kSearchIntervalNs) return;
  last_search_ns_ = now_ns;
  for (const Pid pid : FindTorchProcesses().pids) OnTorchMapped(pid);
}

void AwaitedProcesses::Look(const std::function<bool()>& is_wanted) {
  Search();
  const std::map<uint32_t, KnownProcesses::Awaited> candidates = shared_->known.awaited();
  // Begins behind the process that was looked at last, so that each has its turn.
  const auto next = candidates.upper_bound(last_tried_);
  std::vector<std::pair<uint32_t, KnownProcesses::Awaited>> in_turn(next, candidates.end());
  in_turn.insert(in_turn.end(), candidates.begin(), next);
  for (const auto& [pid, awaited] : in_turn) {
    last_tried_ = pid;
    const bool is_done = Try(Pid{pid}, awaited.loading.get());
    shared_->known.OnLook(Pid{pid}, awaited.loading, is_done);
    if (is_wanted()) return;
  }
}

bool AwaitedProcesses::Try(Pid pid, LoadingProcess* loading) {
  if (!Exists(pid)) return true;
  absl::StatusOr<bool> is_attached = loading->IsReady(pid, shared_->planning, holds_awaited_);
  if (is_attached.ok() && *is_attached) is_attached = Attach(pid, loading);
  if (is_attached.ok() && !*is_attached) return false;
  if (is_attached.ok()) {
    callbacks_->on_change(pid, Pid{});
    // Children that the process forked before the kernel reported its forks are recorded, too.
    children_->FollowForks(pid);
    shared_->known.StopAwaiting(pid);
    return true;
  }
  (void)attacher_->Forget(pid);
  if (Exists(pid) && ExitCodeOf(is_attached.status()) != ExitCode::kNoTarget) {
    shared_->known.Refuse(pid, is_attached.status());
  }
  return true;
}

absl::StatusOr<bool> AwaitedProcesses::Attach(Pid pid, LoadingProcess* loading) {
  if (!holds_awaited_) return AttachNow(pid, loading, nullptr);
  absl::StatusOr<bool> is_attached = false;
  StoppedThreads::WhileHeld(
      pid, [&](StoppedThreads* held) { is_attached = AttachNow(pid, loading, held); });
  return is_attached;
}

absl::StatusOr<bool> AwaitedProcesses::AttachNow(Pid pid, LoadingProcess* loading,
                                                 StoppedThreads* held) {
  absl::StatusOr<std::optional<ProbePlan>> taken = loading->TakePlan(pid, shared_->planning);
  if (!taken.ok()) return taken.status();
  if (!taken->has_value()) return false;
  ProbePlan plan = **std::move(taken);
  const uint32_t operators = plan.operator_count;
  if (holds_awaited_) plan.operators = ReadOperators(pid, plan);
  // A process that was held has missed nothing.
  const int64_t could_run_ns = holds_awaited_ ? 0 : loading->could_run_ns();
  absl::Status status =
      attacher_->Attach(pid, std::move(plan), {/*followed=*/true, could_run_ns}, held);
  if (!status.ok()) return status;
  if (could_run_ns != 0) shared_->gaps.AddLateLoad(pid, could_run_ns, MonotonicNs());
  if (callbacks_->on_awaited) callbacks_->on_awaited(pid, operators);
  return true;
}

}  // namespace proftrace
