// Finds the control groups of a process, which limit its memory and may freeze it. Version 1 has a
// hierarchy for each controller, version 2 has one hierarchy for all; a host may have both
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
  std::string name;  // its path in /proc/PID/cgroup
  // The group's own folder first, then those of the groups above it
  std::vector<std::string> folders;
};

// Finds the group of a process for a controller of version 1 ("memory", "freezer"). Where there is
// no hierarchy of that controller, or `controller` is empty, finds its group of version 2. `groups`
// is the text of /proc/PID/cgroup, `mounts` that of our own /proc/self/mountinfo. nullopt: the
// group has no folder that we can see.
std::optional<ControlGroup> FindControlGroup(std::string_view groups, std::string_view mounts,
                                             std::string_view controller);
std::optional<ControlGroup> FindControlGroup(Pid pid, std::string_view controller);

// Returns the number behind `name` in a text with lines "name number", as memory.stat has; 0 =
// there is no such line.
uint64_t StatNumber(std::string_view text, std::string_view name);

}  // namespace proftrace
