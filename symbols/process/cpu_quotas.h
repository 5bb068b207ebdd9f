// Reads the quotas of CPU time that limit a process: that of its control group, and those of the
// groups above. Version 1 has cpu.cfs_quota_us and cpu.cfs_period_us, version 2 has cpu.max.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "symbols/process/control_groups.h"
#include "userspace/model/cpu_quota.h"
#include "userspace/model/ids.h"

namespace proftrace {

// One level of the hierarchy.
struct CpuGroup {
  bool is_v2 = false;
  std::string name;    // its path, as in /proc/PID/cgroup
  std::string folder;  // the folder where we see it

  bool operator==(const CpuGroup&) const = default;
};

// Returns the group and those above it that we can see, the group itself first.
std::vector<CpuGroup> LevelsOf(const ControlGroup& group);
// Finds the groups that may limit a process's CPU time. nullopt: the process has ended, or its
// group has no folder that we can see.
std::optional<std::vector<CpuGroup>> FindCpuGroups(Pid pid);

// Returns the quota and the counters of one level; nullopt: the level has no quota. Fails with
// Unavailable where the folder is gone or is no control group's, or where its files make no sense.
absl::StatusOr<std::optional<CpuQuota>> ReadCpuQuota(const CpuGroup& group);

}  // namespace proftrace
