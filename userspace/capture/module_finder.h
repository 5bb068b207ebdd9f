// Finds out where nn.Modules hang in the models that call them. A worker without rights does this:
// models are made of the job's memory, while it runs.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/python/python_layout.h"
#include "userspace/model/ids.h"

namespace proftrace {

// A module as the kernel's side has told of it.
struct SeenModule {
  uint64_t object = 0;
  uint64_t type = 0;
  int64_t told_ns = 0;
};

struct FoundModule {
  SeenModule seen;
  std::string path;  // in its model
};

class ModuleFinder {
 public:
  // Returns its place, and new places of modules that were seen before. Empty: it has none.
  // `program`: another number says that the process has another program than before.
  std::vector<FoundModule> Find(Pid pid, uint32_t program, const PythonLayout& layout,
                                const SeenModule& seen);

 private:
  struct Place {
    uint64_t model = 0;
    uint64_t parent = 0;  // 0 = it is the model
    uint64_t type = 0;
    int64_t read_ns = 0;  // it was there then, or later
    std::string path;     // in it
  };
  struct Process {
    uint32_t program = 0;
    PythonLayout layout;
    absl::flat_hash_map<uint64_t, SeenModule> seen;  // by address: what was told of last
    absl::flat_hash_map<uint64_t, Place> places;     // of all modules of the models read so far
    std::vector<uint64_t> models;
  };
  // The children of each module that was looked through, by address.
  using Children = absl::flat_hash_map<uint64_t, absl::flat_hash_set<uint64_t>>;

  // Reads the model below `root`; true when `object` is in it. Modules that were models themselves,
  // or in them, are a part of this one then.
  bool ReadModel(Pid pid, uint64_t root, uint64_t object, Process* process);
  // Finds the model that `seen` is in, or makes it one. False: there are too many of them.
  bool FindModel(Pid pid, const SeenModule& seen, Process* process);
  // Whether the module at `object` is still the one that was read at its place: it may be gone, and
  // another one lie there.
  bool IsStillThere(Pid pid, uint64_t object, Process* process, Children* children);

  absl::flat_hash_map<uint32_t, Process> processes_;  // by pid
  std::vector<FoundModule> found_;                    // by the call of Find() that runs
};

// Make what the worker is asked, and take its answer apart.
std::string AskModule(uint32_t program, const PythonLayout& layout, const SeenModule& seen);
std::vector<FoundModule> ModulesOf(std::string_view answer);
// The worker's; never empty.
std::string AnswerForModule(ModuleFinder* search, Pid pid, std::string_view question);

}  // namespace proftrace
