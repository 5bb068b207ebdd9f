#include "userspace/capture/session/hit_prices.h"

#include <algorithm>

namespace proftrace {
namespace {

// The factor by which a hit costs the job more than was measured, as found with jobs of several
// kinds (tests/bench/RESULTS.md).
constexpr double kWarmFactor = 1.15;
constexpr double kColdFactor = 1.8;
// The standard deviation of that factor between jobs. For cold hits it is greater.
constexpr double kWarmSpread = 0.2;
constexpr double kColdSpread = 0.7;
// A further factor where only a loop in proftrace was measured, which is warmer than two probes in
// a job.
constexpr double kFactorOfLoop = 1.1;
// The deviation where probes read Python's stacks. A pair of probes reads none, so its price says
// little, and the deviation is so great that only a comparison with the job's CPU time counts.
constexpr double kSpreadWithStacks = 5;
// The coldness that is assumed where too few hits were seen.
constexpr double kUsualColdness = 0.7;
// The factor, its deviation and its least value for jumps, whose measured cost is further from what
// jobs pay.
constexpr double kJumpFactor = 1.3;
constexpr double kJumpSpread = 0.6;
constexpr double kLeastJumpFactor = 0.3;

// The usual cost of the probes at an operator, which is needed before anything is recorded. Found
// with the jobs of tests/bench/told_cost.py (RESULTS.md).
constexpr double kHitsOfOperator = 2.3;
constexpr double kInputsNsOfOperator = 500;
constexpr double kStackNsOfOperator = 2000;

}  // namespace

double HitPrices::UsualNsPerOperator(double ns_in_tracer, bool record_shapes, bool with_stack) {
  const double factor =
      kFactorOfLoop * (kWarmFactor + kUsualColdness * (kColdFactor - kWarmFactor));
  double ns = kHitsOfOperator * factor * ns_in_tracer;
  if (record_shapes) ns += kInputsNsOfOperator;
  if (with_stack) ns += kStackNsOfOperator;
  return ns;
}

void HitPrices::EndInJob(double ns_in_tracer) {
  measures_hit_ = false;
  job_ns_per_hit_ = job_hit_cost_.median_ns();
  job_ns_per_call_ = job_hit_cost_.median_call_ns();
  probe_reuse_.SetCost(kWarmFactor * job_ns_per_hit_.value_or(ns_in_tracer));
}

PredictedPrice HitPrices::Predict(double ns_in_tracer, bool with_stack) const {
  const double probe_coldness = probe_reuse_.coldness().value_or(kUsualColdness);
  PredictedPrice price;
  price.usual_factor = (kWarmFactor + probe_coldness * (kColdFactor - kWarmFactor)) *
                       (job_ns_per_hit_ ? 1 : kFactorOfLoop);
  price.spread = kWarmSpread + probe_coldness * (kColdSpread - kWarmSpread);
  price.hit_ns = job_ns_per_hit_.value_or(ns_in_tracer);
  price.reading_ns = std::max(0.0, job_ns_per_call_.value_or(price.hit_ns) - price.hit_ns);
  if (with_stack) price.spread = kSpreadWithStacks;
  return price;
}

HitCost HitPrices::Find(double ns_in_tracer, bool with_stack,
                        const PriceComparison& comparison) const {
  HitCost costs;
  PredictedPrice price = Predict(ns_in_tracer, with_stack);
  costs.stack = stack_cost_.median_ns();
  if (jump_cost_) {
    const double jump_coldness = jump_reuse_.coldness().value_or(kUsualColdness);
    costs.jump = jump_cost_->record.At(jump_coldness);
    costs.count_jump = jump_cost_->count.At(jump_coldness);
    price.usual_factor = kJumpFactor;
    price.spread = kJumpSpread;
    price.least_factor = kLeastJumpFactor;
    price.jump_ns = *costs.jump;
    price.stack_ns = costs.stack.value_or(0);
  }
  const PriceComparison::Factor factor = comparison.Find(price);
  for (std::optional<double>* ns : {&costs.jump, &costs.count_jump, &costs.stack}) {
    if (ns->has_value()) **ns *= factor.value;
  }
  costs.in_tracer = factor.value * ns_in_tracer;
  if (job_ns_per_hit_) costs.in_job = factor.value * *job_ns_per_hit_;
  if (job_ns_per_call_) costs.call_in_job = factor.value * *job_ns_per_call_;
  costs.is_compared = factor.is_compared;
  costs.error = factor.error;
  return costs;
}

}  // namespace proftrace
