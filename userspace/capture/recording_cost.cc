#include "userspace/capture/recording_cost.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace proftrace {
namespace {

// The most that may be a thread's overhead, as a part of its time: beyond it nothing sensible can
// be said of the rest.
constexpr double kMostPart = 0.99;
// A relative error: where the price is known better than this, no range is told.
constexpr double kWorthTelling = 0.1;

// Returns how much longer it took, as what is left is what the job would have taken without.
double PercentOf(double cost_ns, double used_ns) {
  const double part = std::min(kMostPart, cost_ns / std::max(1.0, used_ns));
  return 100.0 * part / (1.0 - part);
}

}  // namespace

Cost EstimateCost(const LiveMeter& meter, const LiveMeter& jumps, const RecordedTime& time,
                  uint64_t lost, const HitCost& hit) {
  Cost cost;
  cost.ns_per_jump = hit.jump.value_or(0);
  // Where there are jumps, nearly all records are theirs.
  (hit.jump.has_value() ? cost.jumps : cost.probe_hits) = lost;
  cost.jumps += jumps.all().hits;
  cost.probe_hits += meter.all().hits;
  cost.probe_ns_per_hit = hit.in_job.value_or(hit.in_tracer);
  cost.input_readings = meter.all().readings;
  if (hit.call_in_job) {
    cost.input_ns_per_reading = std::max(0.0, *hit.call_in_job - cost.probe_ns_per_hit);
  }
  // Whose records were lost is not known: the busiest thread is taken to have lost its share.
  const bool by_cpu_time = time.cpu_ns.value_or(0) > 0;
  const LiveMeter::Hits probed = by_cpu_time ? meter.all() : meter.busiest_thread();
  const LiveMeter::Hits jumped = by_cpu_time ? jumps.all() : jumps.busiest_thread();
  const double share =
      static_cast<double>(cost.probe_hits) / std::max(1.0, static_cast<double>(meter.all().hits));
  const double hits_ns =
      share * (static_cast<double>(probed.hits) * cost.probe_ns_per_hit +
               static_cast<double>(probed.readings) * cost.input_ns_per_reading.value_or(0)) +
      static_cast<double>(jumped.hits) * cost.ns_per_jump +
      static_cast<double>(jumped.stacks) * hit.stack.value_or(0);
  const double other_ns = static_cast<double>(probed.system) * hit.system.value_or(0) + hit.counted;
  const auto used_ns = static_cast<double>(by_cpu_time ? *time.cpu_ns : time.window_ns);
  cost.estimated_overhead_percent = PercentOf(hits_ns + other_ns, used_ns);
  const bool has_probes = hit.in_job || hit.in_tracer > 0;
  cost.basis =
      std::string(by_cpu_time
                      ? "hits times the cost of a hit, over the rest of the CPU time that the "
                        "recorded processes used; "
                      : "hits of the busiest thread times the cost of a hit, over the rest of the "
                        "window; ") +
      (!has_probes ? "there are no probes of the kernel"
       : hit.is_compared
           ? "measured in the job itself: the CPU time that an operator took before the probes "
             "went in or after they were out, and with them"
       : hit.in_job
           ? "measured in the job itself, outside the window: the time between two probes that "
             "follow each other, and what colder caches usually add to it, as its CPU time "
             "without probes could not be compared or was not steady"
           : "that of a loop in proftrace itself, and what the colder caches of a job usually add "
             "to it, as the job was idle or has jumps when it was to be measured");
  if (hit.jump.has_value()) {
    cost.basis +=
        hit.is_compared
            ? "; a jump's record by the CPU time that an operator took with the jumps, and after "
              "they were out"
            : "; a jump's record as in proftrace itself, with caches as cold as it is seldom used";
  }
  if (hit.stack.has_value()) {
    cost.basis += "; stacks of Python's that jumps read at " +
                  std::to_string(static_cast<int64_t>(*hit.stack)) +
                  " ns each, measured in the job, as far as they were not those told of last";
  }
  if (hit.system.has_value()) {
    cost.basis += "; system activity at " + std::to_string(static_cast<int64_t>(*hit.system)) +
                  " ns a record, as system calls in a loop in proftrace";
  }
  if (hit.counted > 0) {
    cost.basis += "; calls that were only counted at what that takes in a loop in proftrace";
  }
  if (hit.error > kWorthTelling) {
    const auto percent = [&](double factor) {
      return std::to_string(std::lround(PercentOf(hits_ns * factor + other_ns, used_ns)));
    };
    cost.basis += "; as far as that is known, it is between " +
                  percent(std::max(0.0, 1 - hit.error)) + " and " + percent(1 + hit.error) + " %";
  }
  return cost;
}

}  // namespace proftrace
