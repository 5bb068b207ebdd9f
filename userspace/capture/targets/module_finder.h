// Finds the place of nn.Modules in the models that call them. It runs in a worker without rights,
// because it reads models from the job's memory, while the job runs.
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

// A module as a record reports it.
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
  // Returns the place of the module `seen`, and new places of modules that were seen before. Empty
  // where the module has no place, or its place was returned before. `program` is another number
  // when the process runs another program.
  std::vector<FoundModule> Find(Pid pid, uint32_t program, const PythonLayout& layout,
                                const SeenModule& seen);

 private:
  struct Place {
    uint64_t model = 0;
    uint64_t parent = 0;  // 0: the module is the model
    uint64_t type = 0;
    int64_t read_ns = 0;  // the module was there at that time or later
    std::string path;     // in the model
  };
  struct Process {
    uint32_t program = 0;
    PythonLayout layout;
    // The last module that was reported at each address.
    absl::flat_hash_map<uint64_t, SeenModule> seen;
    absl::flat_hash_map<uint64_t, Place> places;  // all modules of the models read so far
    std::vector<uint64_t> models;
  };
  // The children of each module that was looked through, by address.
  using Children = absl::flat_hash_map<uint64_t, absl::flat_hash_set<uint64_t>>;

  // Reads the model below `root`. Returns whether `object` is in it. Other models that are found in
  // this one become a part of it.
  bool ReadModel(Pid pid, uint64_t root, uint64_t object, Process* process);
  // Finds the model that `seen` is in, or makes it a model itself. Returns false where there are
  // too many models.
  bool FindModel(Pid pid, const SeenModule& seen, Process* process);
  // Whether the module at `object` is still the one that was read at its place. It may be gone, and
  // another module lie at its address.
  bool IsStillThere(Pid pid, uint64_t object, Process* process, Children* children);

  absl::flat_hash_map<uint32_t, Process> processes_;  // by pid
  std::vector<FoundModule> found_;                    // the result of the Find() that is running
};

// Make the question for the worker, and take its answer apart.
std::string AskModule(uint32_t program, const PythonLayout& layout, const SeenModule& seen);
std::vector<FoundModule> ModulesOf(std::string_view answer);
// Runs in the worker. Returns its answer, which is never empty.
std::string AnswerForModule(ModuleFinder* search, Pid pid, std::string_view question);

}  // namespace proftrace
