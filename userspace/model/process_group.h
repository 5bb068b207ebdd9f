// torch.distributed's process groups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace proftrace {

// A process group as one of its processes knows it.
struct ProcessGroup {
  std::string name;         // "0"; empty where this version of PyTorch does not keep it
  std::string description;  // "default_pg"
  std::string backend;      // "gloo", "nccl"; empty = not known
  int rank = 0;             // the process's rank in the group
  int size = 1;
  std::string backend_config;  // "cpu:gloo,cuda:nccl"; empty = not known
  std::vector<int> ranks;  // the members' ranks in the job, in the group's order; empty = not known
  uint64_t address = 0;    // where the process has its backend's object; 0 = not known

  bool operator==(const ProcessGroup&) const = default;
};

// Returns the group of all processes of the job. Null when there is none.
const ProcessGroup* DefaultGroup(const std::vector<ProcessGroup>& groups);

}  // namespace proftrace
