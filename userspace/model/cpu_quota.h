// How much CPU time a control group may use, and how often its threads wanted more (cpu.max or
// cpu.cfs_quota_us, and cpu.stat: Documentation/scheduler/sched-bwc.rst of the kernel).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace proftrace {

struct CpuQuota {
  std::string group;      // as /proc/PID/cgroup names it: "/kubepods/pod17"
  int64_t quota_ns = 0;   // CPU time that the group may use in a period, on all CPUs together
  int64_t period_ns = 0;  // usually 100 ms
  uint64_t periods = 0;   // periods in which the group had anything to run
  uint64_t throttled_periods = 0;  // those in which threads were stopped by the quota
  int64_t throttled_ns = 0;        // how long threads were stopped, summed over CPUs
};

// The groups with a quota that recorded processes were in at `time_ns`. The kernel counts from the
// moment at which a group was made.
struct CpuQuotaSnapshot {
  int64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::vector<CpuQuota> groups;
};

}  // namespace proftrace
