// The control groups that a process is in: what limits its memory, and what may freeze it. Version
// 1 has a hierarchy for each controller, version 2 one for all; a host may have both
// (Documentation/admin-guide/cgroup-v1, cgroup-v2.rst).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

struct ControlGroup {
  bool is_v2 = false;
  std::string name;                  // as /proc/PID/cgroup has it
  std::vector<std::string> folders;  // its own first, then those above it
};

// Finds the group of a process for a controller of version 1 ("memory", "freezer"), or its group of
// version 2 where that hierarchy is not there, or where `controller` is empty. Reads texts of
// /proc/PID/cgroup and of our own /proc/self/mountinfo. nullopt: the group has no folder that we
// can see.
std::optional<ControlGroup> FindControlGroup(std::string_view groups, std::string_view mounts,
                                             std::string_view controller);
std::optional<ControlGroup> FindControlGroup(Pid pid, std::string_view controller);

// Returns the number behind `name` in a file of lines "name number", as memory.stat; 0 = not there.
uint64_t StatNumber(std::string_view text, std::string_view name);

}  // namespace proftrace
