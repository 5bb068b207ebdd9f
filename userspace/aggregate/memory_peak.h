// Finds who held the memory when a curve was at its highest.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/memory_curves.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The blocks of one owner that were allocated and not yet freed at the peak.
struct PeakOwner {
  PathId path = kRootPath;   // path of the innermost span around the allocation; kRootPath = none
  StackId stack = kNoStack;  // the Python stack, where it was read
  uint64_t blocks = 0;
  int64_t bytes = 0;
};

struct MemoryPoint {
  int64_t time_ns = 0;  // CLOCK_MONOTONIC
  int64_t bytes = 0;    // allocated from then on
};

struct MemoryPeak {
  MemoryCurve curve;
  int64_t time_ns = 0;
  int64_t bytes = 0;              // the curve's value at its peak
  int64_t preexisting_bytes = 0;  // for a device: allocated before the first event
  bool is_whole = true;           // false: the curve ends at a loss
  uint64_t events = 0;
  std::vector<PeakOwner> owners;  // the largest first
  // in order of time; where there are too many: the lowest and highest
  std::vector<MemoryPoint> points;
};

// Returns the peak of each curve that has an event above 0. `most_points`: a curve gets about this
// many points. Three passes over the memory events for each curve.
std::vector<MemoryPeak> FindMemoryPeaks(const Timeline& timeline, size_t most_points);

}  // namespace proftrace
