#include "userspace/capture/processes/child_attacher.h"

#include <optional>

#include "symbols/plan/planner.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/targets/target_info.h"

namespace proftrace {
namespace {

// How many times descendants are looked for, because a child that comes while others are attached
// to is found by the next look. Forks that the kernel reports are followed anyway, so the looks are
// for earlier forks.
constexpr int kMostLooks = 4;

}  // namespace

bool ChildAttacher::AttachForked(Pid child) {
  std::optional<PlannedImage> parent;
  Pid ancestor = child;
  for (int i = 0; i < kMostGenerations && Raw(ancestor) != 0; ++i) {
    ancestor = ReadParent(ancestor);
    parent = shared_->known.Find(ancestor);
    if (parent && parent->plan != nullptr) break;
  }
  // A forked child, such as a DataLoader worker, has its parent's files at its parent's addresses.
  if (!parent || parent->plan == nullptr || !IsForkOf(child, ancestor, *parent->plan)) return false;
  shared_->known.OnFoundChild(child);
  const absl::Status status = attacher_->AttachBy(*parent, child, Arrival{.followed = true});
  if (!status.ok()) (void)attacher_->Forget(child);
  return status.ok();
}

bool ChildAttacher::AttachSpawned(Pid child, PlansByPid* plans) {
  const auto made = plans->find(Raw(child));
  absl::StatusOr<ProbePlan> plan = absl::UnknownError("not made yet");
  if (made != plans->end()) {
    plan = std::move(made->second);
    plans->erase(made);
  } else if (CountTorchMappings(child) > 0) {
    plan = BuildProbePlan(child, shared_->planning);
  }
  // A process that is in the middle of its import is looked at again later.
  if (!plan.ok() || IsRegistering(*plan)) return false;
  const absl::Status status = attacher_->Attach(child, *std::move(plan), Arrival{.followed = true});
  if (!status.ok()) (void)attacher_->Forget(child);
  return status.ok();
}

size_t ChildAttacher::AttachDescendantsOf(Pid pid, PlansByPid* plans,
                                          const std::atomic<bool>& stop) {
  size_t added = 0;
  for (const Pid child : ReadDescendants(pid)) {
    if (stop.load(std::memory_order_relaxed)) break;
    if (shared_->known.IsKnown(child) || !attacher_->Trace(child).ok()) continue;
    // After vfork() the child runs in its parent's memory. The kernel tells when its own program
    // begins.
    if (SharesMemory(child, ReadParent(child))) continue;
    ++added;
    if (AttachForked(child) || AttachSpawned(child, plans)) {
      on_change_(child, Pid{});
    } else {
      shared_->known.Await(child);
    }
  }
  return added;
}

void ChildAttacher::AttachDescendants(const std::vector<Pid>& pids, PlansByPid plans,
                                      const std::atomic<bool>& stop) {
  for (int look = 0; look < kMostLooks; ++look) {
    size_t added = 0;
    for (const Pid pid : pids) added += AttachDescendantsOf(pid, &plans, stop);
    if (added == 0) return;
  }
}

void ChildAttacher::FollowForks(Pid pid) {
  for (const Pid child : ReadDescendants(pid)) {
    if (shared_->known.IsRecorded(child) || !attacher_->Trace(child).ok()) continue;
    if (SharesMemory(child, ReadParent(child))) continue;
    if (AttachForked(child)) on_change_(child, Pid{});
  }
}

}  // namespace proftrace
