#include "userspace/capture/processes/jump_attacher.h"

#include <cstddef>

#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/patch/free_points.h"
#include "userspace/patch/patched_process.h"

namespace proftrace {

absl::StatusOr<std::vector<ModulePlan>> JumpAttacher::Put(
    Pid pid, const std::shared_ptr<const ProbePlan>& plan, bool followed, StoppedThreads* held) {
  if (PatchRecorder* recorder = RecorderFor(pid); recorder != nullptr) {
    absl::StatusOr<std::vector<ModulePlan>> left = recorder->Attach(pid, plan, held);
    if (left.ok() || !has_probes_) return left;
    if (IsPatchedByAnother(pid)) {
      NoteAnothersJumps(pid, *plan);
      return plan->modules;
    }
    if ((!followed && !are_optional_) || !HasFiles(pid, *plan)) return left;
    // A process that may be recorded without jumps, as a child may, is recorded by probes.
    gaps_->AddRefusedJumps(pid, left.status());
  }
  if (absl::Status status = RemoveLeft(pid, *plan); !status.ok()) return status;
  return plan->modules;
}

absl::Status JumpAttacher::RemoveLeft(Pid pid, const ProbePlan& plan) {
  if (!HasPatches(pid)) return absl::OkStatus();
  const absl::StatusOr<bool> cleaned = RemoveLeftPatches(pid);
  if (cleaned.ok()) return absl::OkStatus();
  if (!IsPatchedByAnother(pid)) return cleaned.status();
  NoteAnothersJumps(pid, plan);
  return absl::OkStatus();
}

PatchRecorder* JumpAttacher::RecorderFor(Pid pid) {
  return recorder_ == nullptr || IsLeftOnProbes(pid) ? nullptr : recorder_;
}

bool JumpAttacher::IsLeftOnProbes(Pid pid) {
  const std::lock_guard lock(mutex_);
  if (left_on_probes_.contains(pid)) return true;
  if (left_on_probes_.empty() || !left_on_probes_.contains(ReadParent(pid))) return false;
  left_on_probes_.insert(pid);
  return true;
}

void JumpAttacher::NoteAnothersJumps(Pid pid, const ProbePlan& plan) {
  size_t all = 0;
  size_t free = 0;
  for (const ModulePlan& module : plan.modules) all += module.points.size();
  if (const auto left = PointsBesideJumps(pid, plan.modules); left.ok()) {
    for (const ModulePlan& module : *left) free += module.points.size();
  }
  gaps_->AddAnothersJumps(pid, free, all);
}

}  // namespace proftrace
