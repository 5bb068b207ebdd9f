#include "userspace/capture/library_watch.h"

#include <vector>

#include "symbols/link_map.h"
#include "symbols/planner.h"

namespace proftrace {

void LibraryWatch::Add(Pid pid, const ProbePlan& plan) {
  const std::lock_guard lock(mutex_);
  Watched& watched = watched_[Raw(pid)];
  watched = Watched();
  watched.files = plan.files;
}

void LibraryWatch::Remove(Pid pid) {
  const std::lock_guard lock(mutex_);
  watched_.erase(Raw(pid));
}

void LibraryWatch::Look(const std::function<void(Pid pid)>& on_loaded) {
  std::vector<Pid> loaded;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [pid, watched] : watched_) {
      if (HasLoaded(Pid{pid}, &watched)) loaded.push_back(Pid{pid});
    }
  }
  for (const Pid pid : loaded) on_loaded(pid);
}

bool LibraryWatch::HasLoaded(Pid pid, Watched* watched) {
  const ProcessMemory memory(pid);
  if (watched->linker_debug == 0) watched->linker_debug = FindLinkerDebug(pid, memory);
  if (watched->linker_debug == 0) return false;
  const bool changed = watched->last == 0 || HasSuccessor(memory, watched->last);
  if (!changed && !watched->look_again) return false;
  if (changed) watched->last = LastLoaded(memory, watched->linker_debug);
  watched->look_again = changed && watched->last != 0;
  return HasNewContributor(pid, &watched->files);
}

}  // namespace proftrace
