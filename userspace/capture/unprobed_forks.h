// The forked children of recorded processes: which of them ended before their probes were live, so
// that nothing of what they ran is recorded. One that runs another program first is none of them,
// nor is one that runs in its parent's memory (vfork), where the parent's probes are.
//
// What the kernel tells of processes comes here at once, and is followed later: times decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "userspace/model/ids.h"

namespace proftrace {

// The caller locks.
class UnprobedForks {
 public:
  // What lies outside of the window is no loss. Until it begins, all does.
  void BeginWindow(int64_t start_ns) { start_ns_ = start_ns; }
  void EndWindow(int64_t end_ns) { end_ns_ = end_ns; }

  // `is_recorded`: the parent is, by what has been followed of forks and execs until now.
  void OnFork(Pid parent, Pid child, int64_t time_ns, bool is_recorded);
  // One that was found without its fork being told of.
  void OnFound(Pid child) { forks_.try_emplace(Raw(child), 0); }
  void OnExec(Pid pid);
  // It is not recorded by its old program's plan any more.
  void OnExecFollowed(Pid pid) { execs_.erase(Raw(pid)); }
  void OnExit(Pid pid, int64_t time_ns);

  // Its probes are live.
  void OnLive(Pid pid, int64_t time_ns);
  // It is not recorded, and named elsewhere.
  void OnRefused(Pid pid) { forks_.erase(Raw(pid)); }

  // That ended within the window, without probes.
  uint64_t ended() const { return ended_; }
  // That go on, and have none yet.
  size_t waiting() const;

 private:
  std::map<uint32_t, int64_t> forks_;  // by pid: since when its probes are live; 0 = they are not
  std::set<uint32_t> execs_;           // pids that run another program, which is not followed yet
  uint64_t ended_ = 0;
  int64_t start_ns_ = std::numeric_limits<int64_t>::max();
  int64_t end_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace proftrace
