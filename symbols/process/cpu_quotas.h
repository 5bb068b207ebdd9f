// The quotas of CPU time that a process is under: of its control group, and of each above that.
// Version 1 has cpu.cfs_quota_us and cpu.cfs_period_us, version 2 has cpu.max.
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
  std::string name;    // as /proc/PID/cgroup would have it
  std::string folder;  // where it is mounted for us

  bool operator==(const CpuGroup&) const = default;
};

// Returns a group and those above it, as far as they are mounted for us; its own first.
std::vector<CpuGroup> LevelsOf(const ControlGroup& group);
// nullopt: the process is over, or its group has no folder that we can see.
std::optional<std::vector<CpuGroup>> FindCpuGroups(Pid pid);

// Returns the quota and the counters of one level; nullopt: it has no quota. Fails where that
// cannot be told: the folder is gone or is no control group's, or its files say nothing.
absl::StatusOr<std::optional<CpuQuota>> ReadCpuQuota(const CpuGroup& group);

}  // namespace proftrace
