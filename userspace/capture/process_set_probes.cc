#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "userspace/capture/process_set.h"

// How a ProcessSet takes single probes out while it records.

namespace proftrace {

bool ProcessSet::IsDemotable(Pid pid, uint16_t site) const {
  const std::optional<PlannedImage> planned = known_.Find(pid);
  return planned && planned->plan != nullptr && proftrace::IsDemotable(*planned->plan, site);
}

void ProcessSet::RemoveProbes(Pid pid, RemovedProbes removed) {
  if (!known_.AskRemoval(pid, std::move(removed))) return;
  const std::lock_guard lock(mutex_);
  tasks_.push_back(Task{TaskKind::kRemoveProbes, pid, Pid{}, 0});
  changed_.notify_all();
}

void ProcessSet::FollowRemoval(Pid pid) {
  std::optional<KnownProcesses::Removal> removal = known_.TakeRemoval(pid);
  if (!removal) return;
  closer_.Postpone();
  absl::Status status;
  for (OperatorLinks& links : removal->operators) {
    absl::Status one = links.Remove(programs_, pid, removal->removed);
    if (!one.ok()) status = std::move(one);
  }
  if (!known_.EndRemoval(pid, std::move(removal->operators)) || status.ok()) return;
  gaps_.Add({"fewer probes", "PID " + std::to_string(Raw(pid)) +
                                 " keeps the probes of operators that are only counted: " +
                                 std::string(status.message())});
}

}  // namespace proftrace
