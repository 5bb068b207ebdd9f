#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "userspace/capture/process_set.h"

// How a ProcessSet takes single probes out while it records.

namespace proftrace {

bool ProcessSet::IsDemotable(Pid pid, uint16_t site) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  return it != processes_.end() && it->second.plan != nullptr &&
         proftrace::IsDemotable(*it->second.plan, site);
}

void ProcessSet::RemoveProbes(Pid pid, RemovedProbes removed) {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  it->second.removed = std::move(removed);
  ++it->second.removals;
  tasks_.push_back(Task{TaskKind::kRemoveProbes, pid, Pid{}, 0});
  changed_.notify_all();
}

bool ProcessSet::IsRemovingProbes(Pid pid) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  return it != processes_.end() && it->second.removals > 0;
}

void ProcessSet::FollowRemoval(Pid pid) {
  std::vector<OperatorLinks> operators;
  RemovedProbes removed;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(pid));
    if (it == processes_.end()) return;
    operators = std::exchange(it->second.links.operators, {});
    removed = it->second.removed;
  }
  closer_.Postpone();
  absl::Status status;
  for (OperatorLinks& links : operators) {
    if (absl::Status one = links.Remove(programs_, pid, removed); !one.ok()) status = one;
  }
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  it->second.links.Add({{}, std::move(operators)});
  --it->second.removals;
  if (status.ok()) return;
  gaps_.Add({"fewer probes", "PID " + std::to_string(Raw(pid)) +
                                 " keeps the probes of operators that are only counted: " +
                                 std::string(status.message())});
}

}  // namespace proftrace
