// What torch.distributed's Python code keeps of process groups: which ranks are in them, and how
// many have been made.
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
  std::vector<int> ranks;      // of the job, in the group's order
  uint64_t object = 0;         // the C++ object that pybind11's points to; 0 = not known
};

struct PythonGroups {
  std::vector<PythonGroup> groups;  // groups that the process is in
  std::optional<int> count;         // of all groups that were made, also those that it is not in
};

// nullopt: the module is not there, or its variables are not what they are in 1.13 to 2.15
// (torch/distributed/distributed_c10d.py).
std::optional<PythonGroups> ReadPythonGroups(const TargetMemory& memory, const PythonLayout& layout,
                                             uint64_t interpreter);

// Completes `groups` by `python`. A group's ranks are taken only where both agree on it: on its
// name, or where this version of torch keeps no name in it, on its place, which gives it the name;
// on its size, and on the process's own rank in it. Returns how many groups got theirs.
size_t AddMembers(const PythonGroups& python, std::vector<ProcessGroup>* groups);

}  // namespace proftrace
