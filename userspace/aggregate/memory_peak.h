// Who held the memory when a curve was at its highest.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/memory_curves.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Blocks of one owner that were allocated, and not freed yet, at the peak.
struct PeakOwner {
  PathId path = kRootPath;   // of the innermost span around the allocation; kRootPath = none
  StackId stack = kNoStack;  // of Python, where it was read
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
  int64_t bytes = 0;              // of the curve at its peak
  int64_t preexisting_bytes = 0;  // of a device: what was there before the first event
  bool is_whole = true;           // false: the curve ends at a loss
  uint64_t events = 0;
  std::vector<PeakOwner> owners;    // the largest first
  std::vector<MemoryPoint> points;  // in order of time; of crowded stretches the lowest and highest
};

// Returns the peak of each curve that has an event above 0. `most_points`: about so many points of
// a curve are given. Three passes over the memory events a curve.
std::vector<MemoryPeak> FindMemoryPeaks(const Timeline& timeline, size_t most_points);

}  // namespace proftrace
