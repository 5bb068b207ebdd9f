// How much CPU time a control group may use, and how often it wanted more (cpu.max or
// cpu.cfs_quota_us, and cpu.stat: Documentation/scheduler/sched-bwc.rst of the kernel).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace proftrace {

struct CpuQuota {
  std::string group;               // as /proc/PID/cgroup names it: "/kubepods/pod17"
  int64_t quota_ns = 0;            // CPU time that it may use in a period, on all CPUs together
  int64_t period_ns = 0;           // usually 100 ms
  uint64_t periods = 0;            // in which it had anything to run
  uint64_t throttled_periods = 0;  // in which the quota was used up while threads could go on
  int64_t throttled_ns = 0;        // for which they were kept from running, each CPU's added up
};

// The groups with a quota that recorded processes were in at one time. The counters are those since
// a group was made.
struct CpuQuotaSnapshot {
  int64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::vector<CpuQuota> groups;
};

}  // namespace proftrace
