#include "userspace/capture/processes/unprobed_forks.h"

#include <algorithm>

namespace proftrace {

void UnprobedForks::OnFork(Pid parent, Pid child, int64_t time_ns, bool is_recorded) {
  if (time_ns >= end_ns_ || execs_.contains(Raw(parent))) return;
  if (is_recorded || forks_.contains(Raw(parent))) OnFound(child);
}

void UnprobedForks::OnExec(Pid pid) {
  forks_.erase(Raw(pid));
  execs_.insert(Raw(pid));
}

void UnprobedForks::OnExit(Pid pid, int64_t time_ns) {
  execs_.erase(Raw(pid));
  const auto it = forks_.find(Raw(pid));
  if (it == forks_.end()) return;
  const bool was_live = it->second != 0 && it->second <= time_ns;
  // A child that ends after the window still counts as a child that had no probes at the window's
  // end.
  if (!was_live && time_ns >= end_ns_) return;
  if (!was_live && time_ns >= start_ns_) ++ended_;
  forks_.erase(it);
}

void UnprobedForks::OnLive(Pid pid, int64_t time_ns) {
  const auto it = forks_.find(Raw(pid));
  if (it != forks_.end()) it->second = time_ns;
}

size_t UnprobedForks::waiting() const {
  return static_cast<size_t>(std::count_if(forks_.begin(), forks_.end(),
                                           [](const auto& fork) { return fork.second == 0; }));
}

}  // namespace proftrace
