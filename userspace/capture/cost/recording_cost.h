// Estimates what a recording costs the job, from the hits that were counted.
#pragma once

#include <cstdint>
#include <optional>

#include "userspace/capture/cost/live_meter.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Returns what these records of system activity cost together, in nanoseconds.
inline double SystemNs(const SystemCost& cost, const LiveMeter::Hits& hits) {
  return static_cast<double>(hits.system - hits.faults) * cost.call +
         static_cast<double>(hits.faults) * cost.fault;
}

// The costs of hits, in nanoseconds. A figure that was measured with warm caches is scaled to the
// job's caches (price_comparison.h, site_reuse.h).
struct HitCost {
  double in_tracer = 0;          // of a hit, by a loop in proftrace
  std::optional<double> in_job;  // of a hit, measured in the job
  // Whether in_job was found by comparing the job's CPU time with and without probes.
  bool is_compared = false;
  double error = 0;  // the relative standard deviation of the costs of hits and jumps
  std::optional<double> call_in_job;  // of a begin that reads inputs
  std::optional<double> jump;         // of a jump's record, by calls in proftrace
  std::optional<double> stack;        // of a Python stack that a jump reads, in the job
  std::optional<SystemCost> system;
  std::optional<double> count_jump;  // of a jump that only counts, by calls in proftrace
  double counted = 0;                // the total of all calls that were only counted
};

// The time during which processes were recorded.
struct RecordedTime {
  int64_t window_ns = 0;
  std::optional<int64_t> cpu_ns = std::nullopt;  // of all their threads; nullopt: not known
};

// Estimates all costs except the tracer's own time, of a recording that has lost `lost` records.
// `jumps` has counted the jumps' records, `meter` the probes'. `hit.error` allows for a range of
// prices. Prices by which hits took more time than the job used must be wrong, so the result has
// the median of the others.
Cost EstimateCost(const LiveMeter& meter, const LiveMeter& jumps, const RecordedTime& time,
                  uint64_t lost, const HitCost& hit);

}  // namespace proftrace
