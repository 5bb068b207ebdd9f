// What the kernel counts of the whole host that makes the same work take longer: processors that
// are slowed down or may not run at their full speed, and memory that is read from another node.
#pragma once

#include <cstdint>
#include <optional>

namespace proftrace {

// The limits of the processors' frequency that were set on this host (cpufreq of sysfs:
// scaling_max_freq and cpuinfo_max_freq).
struct FrequencyLimit {
  uint32_t cpus = 0;       // that have both figures
  uint32_t limited = 0;    // whose limit is lower than what they are able to, by a twentieth
  uint64_t limit_khz = 0;  // the lowest limit of those; 0: none is limited
  uint64_t able_khz = 0;   // what that processor is able to

  bool operator==(const FrequencyLimit&) const = default;
};

// The pages of which automatic NUMA balancing has learned who uses them, since the host started.
// The kernel takes a part of a process's pages away for a moment, and the next access tells
// (Documentation/admin-guide/sysctl/kernel.rst, numa_balancing; /proc/vmstat, numa_hint_faults).
struct NumaHints {
  uint64_t all = 0;
  uint64_t local = 0;  // on the node of the CPU that used them

  bool operator==(const NumaHints&) const = default;
};

struct HostState {
  int64_t time_ns = 0;  // CLOCK_MONOTONIC
  // For how long processors were slowed down because of heat or power since the host started, the
  // packages' times added up (thermal_throttle of sysfs); nullopt: the host does not count that.
  std::optional<int64_t> throttled_ns;
  std::optional<FrequencyLimit> frequency;  // nullopt: the host has no such figures
  std::optional<NumaHints> numa;            // nullopt: the kernel does not balance

  bool operator==(const HostState&) const = default;
};

}  // namespace proftrace
