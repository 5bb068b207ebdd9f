// Reads the variables that torch.distributed's Python code keeps about process groups: which ranks
// are in them, and how many have been made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"
#include "userspace/model/process_group.h"

namespace proftrace {

struct PythonGroup {
  std::string name;            // "0"
  std::string backend_config;  // "cpu:gloo,cuda:nccl"; empty before 2.1
  std::vector<int> ranks;      // ranks in the job, in the group's order
  uint64_t object = 0;  // the address of the C++ object, from pybind11's object; 0 = not known
};

struct PythonGroups {
  std::vector<PythonGroup> groups;  // groups that the process is in
  std::optional<int> count;  // how many groups were made, those included that the process is not in
};

// Reads the groups. nullopt: the module is not loaded, or its variables are not those of 1.13 to
// 2.15 (torch/distributed/distributed_c10d.py).
std::optional<PythonGroups> ReadPythonGroups(const TargetMemory& memory, const PythonLayout& layout,
                                             uint64_t interpreter);

// Adds to `groups` the ranks that `python` has. A group's ranks are taken only where both sources
// agree on its name, its size and the process's own rank in it. Where this version of torch keeps
// no name in the object, the object's address is compared instead and the group gets Python's name.
// Returns how many groups got their ranks.
size_t AddMembers(const PythonGroups& python, std::vector<ProcessGroup>* groups);

}  // namespace proftrace
