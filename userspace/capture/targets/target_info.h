// Reads the facts of processes and their threads that a recording has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/model/ids.h"
#include "userspace/model/recording.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

// Describes a process from /proc. For a process that has ended by now, only its pid is set.
Target DescribeProcess(Pid pid);

// Returns a process's living threads with their names.
std::vector<ThreadEntry> ReadThreads(Pid pid);

// Returns a process's parent; 0 where it has none, or has ended.
Pid ReadParent(Pid pid);

// Returns a process's living children, their children, and so on.
std::vector<Pid> ReadDescendants(Pid pid);

// Returns whether there is a process of this number; a zombie is one.
bool Exists(Pid pid);

// Returns whether a process runs a program. That ends when its memory is freed, which is before the
// process is a zombie.
bool HasProgram(Pid pid);

// Returns whether two processes run in the same memory (vfork, clone(CLONE_VM)). False where the
// kernel cannot tell.
bool SharesMemory(Pid a, Pid b);

// Returns how many executable mappings a process has of files that may be PyTorch's. Cheap, so that
// it can be called often.
uint32_t CountTorchMappings(Pid pid);

// The processes of the host that have such mappings, in ascending order, without this process.
struct TorchProcesses {
  std::vector<Pid> pids;
  uint32_t closed = 0;  // processes that this user may not look into
};
TorchProcesses FindTorchProcesses();

// Returns a sentence that says why `closed` processes are not recorded, for root or for another
// user.
std::string WhyClosed(uint32_t closed, bool is_root);

}  // namespace proftrace
