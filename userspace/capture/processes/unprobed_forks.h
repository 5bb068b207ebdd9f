// Counts the forked children of recorded processes that ended before their probes were live, so
// that nothing of what they ran is recorded. A child that runs another program first does not
// count. Nor does a child that runs in its parent's memory (vfork), because it has the parent's
// probes.
//
// The kernel's records of processes come here at once, but are followed later, so their times
// decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "userspace/model/ids.h"

namespace proftrace {

// Not thread-safe: the caller must hold a lock.
class UnprobedForks {
 public:
  // Begins the window. A child that ends outside of it is no loss; until this call all time is
  // outside.
  void BeginWindow(int64_t start_ns) { start_ns_ = start_ns; }
  void EndWindow(int64_t end_ns) { end_ns_ = end_ns; }

  // Notes a fork. `is_recorded` says whether the parent is recorded, as far as forks and execs were
  // followed until now.
  void OnFork(Pid parent, Pid child, int64_t time_ns, bool is_recorded);
  // Notes a child that was found, or whose fork the kernel has reported.
  void OnFound(Pid child) { forks_.try_emplace(Raw(child), 0); }
  void OnExec(Pid pid);
  // Notes that a process is not recorded by its old program's plan any more.
  void OnExecFollowed(Pid pid) { execs_.erase(Raw(pid)); }
  void OnExit(Pid pid, int64_t time_ns);

  // Notes that a process's probes are live.
  void OnLive(Pid pid, int64_t time_ns);
  // Forgets a process that is not recorded; another message names it.
  void OnRefused(Pid pid) { forks_.erase(Raw(pid)); }

  // Returns how many children ended within the window without probes.
  uint64_t ended() const { return ended_; }
  // Returns how many children live on and have no probes yet.
  size_t waiting() const;

 private:
  std::map<uint32_t, int64_t> forks_;  // when a child's probes went live, by pid; 0: not yet
  std::set<uint32_t> execs_;           // pids that run another program, which is not followed yet
  uint64_t ended_ = 0;
  int64_t start_ns_ = std::numeric_limits<int64_t>::max();
  int64_t end_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace proftrace
