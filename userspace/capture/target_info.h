// Reads what a recording says of a process and its threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/model/ids.h"
#include "userspace/model/recording.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

// Describes a process by what /proc says. A process that has gone by now has only its pid.
Target DescribeProcess(Pid pid);

// Returns its living threads with their names.
std::vector<ThreadEntry> ReadThreads(Pid pid);

// Returns its parent; 0 when it has none, or is gone.
Pid ReadParent(Pid pid);

// Returns its living children, their children, and so on.
std::vector<Pid> ReadDescendants(Pid pid);

// Returns how many executable mappings it has of files that may be PyTorch's: cheap, to be asked
// often.
uint32_t CountTorchMappings(Pid pid);

// The processes of the host that have such mappings, ascending, without this one.
struct TorchProcesses {
  std::vector<Pid> pids;
  uint32_t closed = 0;  // that this user may not look into
};
TorchProcesses FindTorchProcesses();

// Says why `closed` such processes are not recorded, to root or to another user.
std::string WhyClosed(uint32_t closed, bool is_root);

}  // namespace proftrace
