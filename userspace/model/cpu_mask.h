// Which CPUs a process may run on: by sched_setaffinity (taskset), or by a cpuset of its control
// group (docker --cpuset-cpus, Kubernetes' CPU manager).
#pragma once

#include <cstdint>
#include <string>

namespace proftrace {

struct CpuMask {
  uint32_t count = 0;  // CPUs
  std::string cpus;    // as the kernel writes them: "0-3,8"

  bool operator==(const CpuMask&) const = default;
};

}  // namespace proftrace
