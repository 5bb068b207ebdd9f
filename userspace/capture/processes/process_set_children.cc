#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "symbols/plan/planner.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/processes/process_set.h"
#include "userspace/capture/targets/target_info.h"

// How a ProcessSet attaches to children that are there already.

namespace proftrace {
namespace {

// How many times descendants are looked for, because a child that comes while others are attached
// to is found by the next look. Forks that the kernel reports are followed anyway, so the looks are
// for earlier forks.
constexpr int kMostLooks = 4;

}  // namespace

bool ProcessSet::AttachForked(Pid child) {
  Process parent;
  Pid ancestor = child;
  for (int i = 0; i < kMostGenerations && parent.plan == nullptr && Raw(ancestor) != 0; ++i) {
    ancestor = ReadParent(ancestor);
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(ancestor));
    if (it == processes_.end()) continue;
    parent.image = it->second.image;
    parent.plan_id = it->second.plan_id;
    parent.plan = it->second.plan;
  }
  // A forked child, such as a DataLoader worker, has its parent's files at its parent's addresses.
  if (parent.plan == nullptr || !IsForkOf(child, ancestor, *parent.plan)) return false;
  {
    const std::lock_guard lock(mutex_);
    unprobed_forks_.OnFound(child);
  }
  const absl::Status status =
      AttachWithPlan(child, parent.plan, parent.plan_id, parent.image, Arrival{.followed = true});
  if (!status.ok()) (void)Forget(child);
  return status.ok();
}

bool ProcessSet::AttachSpawned(Pid child, Plans* plans) {
  const auto made = plans->find(Raw(child));
  absl::StatusOr<ProbePlan> plan = absl::UnknownError("not made yet");
  if (made != plans->end()) {
    plan = std::move(made->second);
    plans->erase(made);
  } else if (CountTorchMappings(child) > 0) {
    plan = BuildProbePlan(child, plan_options_);
  }
  // A process that is in the middle of its import is looked at again later.
  if (!plan.ok() || IsRegistering(*plan)) return false;
  const absl::Status status = AttachImage(child, *std::move(plan), Arrival{.followed = true});
  if (!status.ok()) (void)Forget(child);
  return status.ok();
}

size_t ProcessSet::AttachDescendantsOf(Pid pid, Plans* plans, const std::atomic<bool>& stop) {
  size_t added = 0;
  for (const Pid child : ReadDescendants(pid)) {
    if (stop.load(std::memory_order_relaxed)) break;
    {
      const std::lock_guard lock(mutex_);
      const bool is_known = processes_.contains(Raw(child)) || awaited_.contains(Raw(child)) ||
                            refused_.contains(Raw(child));
      if (is_known) continue;
    }
    if (!Trace(child).ok()) continue;
    // After vfork() the child runs in its parent's memory. The kernel tells when its own program
    // begins.
    if (SharesMemory(child, ReadParent(child))) continue;
    ++added;
    if (AttachForked(child) || AttachSpawned(child, plans)) {
      on_change_(child, Pid{});
    } else {
      Await(child);
    }
  }
  return added;
}

void ProcessSet::AttachDescendants(const std::vector<Pid>& pids, Plans plans,
                                   const std::atomic<bool>& stop) {
  for (int look = 0; look < kMostLooks; ++look) {
    size_t added = 0;
    for (const Pid pid : pids) added += AttachDescendantsOf(pid, &plans, stop);
    if (added == 0) return;
  }
}

void ProcessSet::FollowForks(Pid pid) {
  for (const Pid child : ReadDescendants(pid)) {
    if (ImageOf(child).has_value() || !Trace(child).ok()) continue;
    if (SharesMemory(child, ReadParent(child))) continue;
    if (AttachForked(child)) on_change_(child, Pid{});
  }
}

}  // namespace proftrace
