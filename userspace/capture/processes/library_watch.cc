#include "userspace/capture/processes/library_watch.h"

#include <vector>

#include "symbols/elf/link_map.h"
#include "symbols/plan/planner.h"

namespace proftrace {
namespace {

constexpr size_t kMostLists = 16;  // glibc's DL_NNS

}  // namespace

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

bool LibraryWatch::HasChanged(const TargetMemory& memory, const std::vector<LinkerList>& lists) {
  if (lists.empty()) return true;
  for (const LinkerList& list : lists) {
    if (list.last == 0 || HasSuccessor(memory, list.last)) return true;
  }
  return lists.size() < kMostLists && NextNamespace(memory, lists.back().debug) != 0;
}

std::vector<LibraryWatch::LinkerList> LibraryWatch::ReadLists(Pid pid, const TargetMemory& memory) {
  std::vector<LinkerList> lists;
  for (uint64_t debug = FindLinkerDebug(pid, memory); debug != 0 && lists.size() < kMostLists;
       debug = NextNamespace(memory, debug)) {
    lists.push_back({debug, LastLoaded(memory, debug)});
  }
  return lists;
}

bool LibraryWatch::HasLoaded(Pid pid, Watched* watched) const {
  const ProcessMemory memory(pid);
  const bool changed = HasChanged(memory, watched->lists);
  if (!changed && !watched->look_again) return false;
  if (changed) watched->lists = ReadLists(pid, memory);
  if (watched->lists.empty()) return false;
  watched->look_again = changed && watched->lists.front().last != 0;
  return HasNewContributor(pid, python_gc_, &watched->files);
}

}  // namespace proftrace
