// Notices libraries that a recorded process loads after its probe plan was made, and that may have
// rows of their own.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/process_memory.h"
#include "userspace/model/ids.h"

namespace proftrace {

// May be used by several threads.
class LibraryWatch {
 public:
  // With `python_gc`, an interpreter that is loaded late has rows, too.
  explicit LibraryWatch(bool python_gc) : python_gc_(python_gc) {}

  // Watches a process; the files of `plan` are known already.
  void Add(Pid pid, const ProbePlan& plan);
  void Remove(Pid pid);
  // Looks at each process, and calls on_loaded(pid) for each that has loaded such a library. Where
  // nothing was loaded, a look reads only a few words of the process's memory.
  void Look(const std::function<void(Pid pid)>& on_loaded);

 private:
  // The dynamic linker's list of libraries of one of its namespaces.
  struct LinkerList {
    uint64_t debug = 0;
    uint64_t last = 0;  // the list's last entry
  };
  struct Watched {
    std::set<FileId> files;
    std::vector<LinkerList> lists;
    // Whether the next look reads the maps again, because the linker lists a library before all of
    // it is mapped.
    bool look_again = true;
  };
  // Whether a list has grown, or there is a new list.
  static bool HasChanged(const TargetMemory& memory, const std::vector<LinkerList>& lists);
  static std::vector<LinkerList> ReadLists(Pid pid, const TargetMemory& memory);
  bool HasLoaded(Pid pid, Watched* watched) const;

  const bool python_gc_;
  std::mutex mutex_;
  std::map<uint32_t, Watched> watched_;  // by pid
};

}  // namespace proftrace
