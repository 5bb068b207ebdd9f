// Estimates what a recording costs the job, from what was counted.
#pragma once

#include <cstdint>
#include <optional>

#include "userspace/capture/live_meter.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Nanoseconds. What was measured with warm caches is told as it is with the job's
// (price_comparison.h, site_reuse.h).
struct HitCost {
  double in_tracer = 0;               // of a hit, by a loop in proftrace
  std::optional<double> in_job;       // of a hit, measured in the job
  bool is_compared = false;           // … by its CPU time without probes
  double error = 0;                   // of these and of jumps, a relative standard deviation
  std::optional<double> call_in_job;  // of a begin that reads inputs
  std::optional<double> jump;         // of a jump's record, by calls in proftrace
  std::optional<double> stack;        // of a stack of Python's that a jump tells of, in the job
  std::optional<double> system;       // of a system call that is recorded, in a loop in proftrace
  std::optional<double> count_jump;   // of a jump that only counts, by calls in proftrace
  double counted = 0;                 // of all calls that were only counted, together
};

// The time that the recorded processes had.
struct RecordedTime {
  int64_t window_ns = 0;
  std::optional<int64_t> cpu_ns = std::nullopt;  // of all their threads; nullopt: not known
};

// Estimates all but the tracer's own time, of a recording that has lost `lost` records. `jumps`:
// what jumps recorded; the rest is of probes. A price by which hits took more than what the job
// used is wrong: of the prices that `hit.error` allows for, the median of those that are possible
// is told.
Cost EstimateCost(const LiveMeter& meter, const LiveMeter& jumps, const RecordedTime& time,
                  uint64_t lost, const HitCost& hit);

}  // namespace proftrace
