// Attaches to children that recorded processes have already: forked ones by their parent's plan,
// spawned ones by a plan of their own.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/processes/attacher.h"
#include "userspace/capture/processes/shared_parts.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Plans of processes that were made beforehand, by PID.
using PlansByPid = std::map<uint32_t, absl::StatusOr<ProbePlan>>;

// May be used by several threads. It has no lock but those of its parts.
class ChildAttacher {
 public:
  // Both must outlive this object. `on_change` is as in ProcessCallbacks.
  ChildAttacher(SharedParts* shared, Attacher* attacher,
                std::function<void(Pid pid, Pid parent)> on_change)
      : shared_(shared), attacher_(attacher), on_change_(std::move(on_change)) {}

  // Attaches to the descendants that `pids` have already. Forked ones, as DataLoader workers are,
  // get the plan of their parent; others that have PyTorch get the one in `plans`, or a new one. A
  // descendant that has no PyTorch, or is just loading it, is awaited. Ends early when `stop` is
  // set.
  void AttachDescendants(const std::vector<Pid>& pids, PlansByPid plans,
                         const std::atomic<bool>& stop);
  // Attaches to the descendants that were forked by `pid`.
  void FollowForks(Pid pid);

 private:
  // Attach to `child`, on which the kernel reports already, by the plan of the process that forked
  // it, or by a plan of its own. Return whether that worked.
  bool AttachForked(Pid child);
  bool AttachSpawned(Pid child, PlansByPid* plans);
  size_t AttachDescendantsOf(Pid pid, PlansByPid* plans, const std::atomic<bool>& stop);

  SharedParts* shared_;
  Attacher* attacher_;
  std::function<void(Pid pid, Pid parent)> on_change_;
};

}  // namespace proftrace
