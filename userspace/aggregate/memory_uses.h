// Sums up the allocations of one process and device (memory_curves.h) in stretches of time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "userspace/aggregate/memory_curves.h"
#include "userspace/base/stretches.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct MemoryUse {
  int64_t begin_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;
  int64_t begin_bytes = 0;  // allocated when the stretch began
  int64_t peak_bytes = 0;   // the most that was allocated at one time
  int64_t end_bytes = 0;
  uint64_t allocations = 0;
  uint64_t frees = 0;
  int64_t allocated_bytes = 0;
  int64_t freed_bytes = 0;
};

// Returns the memory use in each of `stretches`, which are in order and do not overlap. nullopt: a
// loss made the total unknown before the stretch ended.
std::vector<std::optional<MemoryUse>> MemoryUsesIn(const Timeline& timeline,
                                                   const MemoryCurve& curve,
                                                   const std::vector<Stretch>& stretches);

// Returns the main curve of a process: that of its first GPU, or else that of its CPU memory;
// nullopt: it has no curve.
std::optional<MemoryCurve> MainCurveOf(const std::vector<MemoryCurve>& curves, Pid pid);

}  // namespace proftrace
