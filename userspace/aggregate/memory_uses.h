// Sums up what was allocated in stretches of time, of one process and device (memory_curves.h).
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
  int64_t begin_bytes = 0;  // allocated when it began
  int64_t peak_bytes = 0;   // the most in it
  int64_t end_bytes = 0;
  uint64_t allocations = 0;
  uint64_t frees = 0;
  int64_t allocated_bytes = 0;
  int64_t freed_bytes = 0;
};

// Returns the uses of `stretches`, which are in order and do not overlap. nullopt: a loss has made
// the total unknown before the stretch was over.
std::vector<std::optional<MemoryUse>> MemoryUsesIn(const Timeline& timeline,
                                                   const MemoryCurve& curve,
                                                   const std::vector<Stretch>& stretches);

// Returns the curve that stands for a process: of its first GPU, else of its CPU memory; nullopt:
// it has none.
std::optional<MemoryCurve> MainCurveOf(const std::vector<MemoryCurve>& curves, Pid pid);

}  // namespace proftrace
