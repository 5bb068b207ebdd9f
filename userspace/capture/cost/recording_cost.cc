#include "userspace/capture/cost/recording_cost.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace proftrace {
namespace {

// The greatest overhead, as a part of a thread's time. Beyond it the rest is too small for a
// sensible percentage.
constexpr double kMostPart = 0.99;
// The greatest relative standard deviation of prices between jobs. A greater error only says that
// nothing is known.
constexpr double kMostDeviation = 0.7;
// The relative error from which on a range is given with the figure.
constexpr double kWorthTelling = 0.1;

// Returns by how many percent the job took longer: the time without the cost is what it would have
// taken.
double PercentOf(double cost_ns, double used_ns) {
  const double part = std::min(kMostPart, cost_ns / std::max(1.0, used_ns));
  return 100.0 * part / (1.0 - part);
}

double NormalBelow(double at) { return std::erfc(-at / std::sqrt(2.0)) / 2; }

// Returns the `at` below which a normal distribution has the part `below`; 0 < below <= 0.5.
double NormalQuantile(double below) {
  double low = -38;  // NormalBelow(low) is about the least double
  double high = 0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (NormalBelow(middle) < below ? low : high) = middle;
  }
  return high;
}

// Returns the median of a price that is 1 within a relative standard deviation of `error`, where it
// is known to be less than `most`: of a lognormal distribution that ends there.
double MedianPriceUpTo(double most, double error) {
  if (error <= 0) return 1;
  const double deviation = std::min(error, kMostDeviation);
  const double below = NormalBelow(std::log(most) / deviation);
  // `most` is so far off that nothing of the distribution is left below it.
  if (below <= 0) return most;
  return std::min(most, std::exp(deviation * NormalQuantile(below / 2)));
}

// Scales the costs of hits and jumps, which `hit.error` is for. Costs that were measured in other
// ways stay.
HitCost Scaled(HitCost hit, double factor) {
  hit.in_tracer *= factor;
  for (std::optional<double>* ns : {&hit.in_job, &hit.call_in_job, &hit.jump, &hit.stack}) {
    if (ns->has_value()) **ns *= factor;
  }
  return hit;
}

double ProbeNs(const HitCost& hit) { return hit.in_job.value_or(hit.in_tracer); }

// Returns the nanoseconds that reading inputs adds to a hit.
std::optional<double> ReadingNs(const HitCost& hit) {
  if (!hit.call_in_job) return std::nullopt;
  return std::max(0.0, *hit.call_in_job - ProbeNs(hit));
}

// The hits that the figure is made of.
struct PricedHits {
  LiveMeter::Hits probed;
  LiveMeter::Hits jumped;
  double share = 1;  // factor on the probes' hits, for lost records

  double Ns(const HitCost& hit) const {
    return share * (static_cast<double>(probed.hits) * ProbeNs(hit) +
                    static_cast<double>(probed.readings) * ReadingNs(hit).value_or(0)) +
           static_cast<double>(jumped.hits) * hit.jump.value_or(0) +
           static_cast<double>(jumped.stacks) * hit.stack.value_or(0);
  }
};

// Says in words how a hit's price was found.
std::string PriceBasis(const HitCost& hit) {
  std::string basis;
  const bool has_probes = hit.in_job || hit.in_tracer > 0;
  basis =
      !has_probes ? "there were no probes of the kernel"
      : hit.is_compared
          ? "the cost of a hit was measured in the job itself, by the CPU time that an operator "
            "took with probes, and before they went in or after they were removed"
      : hit.in_job
          ? "the cost of a hit was measured in the job itself, outside the window, by the time "
            "between two probes that follow each other, and what colder caches usually add to it, "
            "because the job's CPU time without probes could not be compared or was not steady"
          : "the cost of a hit is that of a loop in proftrace itself, and what the colder caches "
            "of a job usually add to it, because the job was idle or had jumps when it was to be "
            "measured";
  if (hit.jump.has_value()) {
    basis += hit.is_compared
                 ? "; the cost of a jump is by the CPU time that an operator took with jumps, and "
                   "after they were removed"
                 : "; the cost of a jump is that of a loop in proftrace itself, with caches that "
                   "are the colder the more seldom the job's jumps are used";
  }
  if (hit.stack.has_value()) {
    basis += "; Python stacks that jumps read count " +
             std::to_string(static_cast<int64_t>(*hit.stack)) +
             " ns each, measured in the job, where they differ from the thread's stack before";
  }
  if (hit.system.has_value()) {
    basis += "; records of system activity count " +
             std::to_string(static_cast<int64_t>(hit.system->call)) +
             " ns each, as system calls in a loop in proftrace do";
    if (hit.system->fault > 0) {
      basis += ", and page faults " + std::to_string(static_cast<int64_t>(hit.system->fault)) +
               " ns, as faults in a loop do";
    }
  }
  if (hit.counted > 0) {
    basis += "; the cost of counting a call is that of a loop in proftrace";
  }
  return basis;
}

}  // namespace

Cost EstimateCost(const LiveMeter& meter, const LiveMeter& jumps, const RecordedTime& time,
                  uint64_t lost, const HitCost& hit) {
  Cost cost;
  // Where there are jumps, nearly all records come from them, so the lost ones are counted as
  // theirs.
  (hit.jump.has_value() ? cost.jumps : cost.probe_hits) = lost;
  cost.jumps += jumps.all().hits;
  cost.probe_hits += meter.all().hits;
  cost.input_readings = meter.all().readings;
  // It is not known whose records were lost. The busiest thread is taken to have lost its share.
  const bool by_cpu_time = time.cpu_ns.value_or(0) > 0;
  PricedHits hits{by_cpu_time ? meter.all() : meter.busiest_thread(),
                  by_cpu_time ? jumps.all() : jumps.busiest_thread()};
  hits.share =
      static_cast<double>(cost.probe_hits) / std::max(1.0, static_cast<double>(meter.all().hits));
  const SystemCost system = hit.system.value_or(SystemCost());
  cost.system = system;
  const double other_ns = SystemNs(system, hits.probed) + hit.counted;
  const auto used_ns = static_cast<double>(by_cpu_time ? *time.cpu_ns : time.window_ns);

  // All hits together took no more time than the job used, so a price that says otherwise is too
  // high.
  const double most = std::max(0.0, used_ns - other_ns) / std::max(1.0, hits.Ns(hit));
  const HitCost price = Scaled(hit, MedianPriceUpTo(most, hit.error));
  cost.ns_per_jump = price.jump.value_or(0);
  cost.probe_ns_per_hit = ProbeNs(price);
  cost.input_ns_per_reading = ReadingNs(price);
  const double hits_ns = hits.Ns(price);
  cost.estimated_overhead_percent = PercentOf(hits_ns + other_ns, used_ns);
  PricedHits busiest{meter.busiest_thread(), jumps.busiest_thread()};
  busiest.share = hits.share;
  cost.busiest_thread_percent = PercentOf(busiest.Ns(price) + SystemNs(system, busiest.probed),
                                          static_cast<double>(time.window_ns));
  cost.basis = (by_cpu_time ? "the estimate is hits times the cost of a hit, divided by the CPU "
                              "time that the recorded processes used otherwise; "
                            : "the estimate is hits of the busiest thread times the cost of a hit, "
                              "divided by the rest of the window; ") +
               PriceBasis(price);
  if (hit.error > kWorthTelling) {
    const auto percent = [&](double factor) {
      return PercentOf(hits.Ns(hit) * factor + other_ns, used_ns);
    };
    const double highest = percent(1 + hit.error);
    cost.basis += "; as far as that is known, the estimate lies between " +
                  std::to_string(std::lround(percent(std::max(0.0, 1 - hit.error)))) + " and " +
                  (highest < PercentOf(kMostPart, 1) ? std::to_string(std::lround(highest))
                                                     : "many thousand") +
                  " %";
  }
  return cost;
}

}  // namespace proftrace
