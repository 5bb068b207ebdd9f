#include "userspace/capture/cost/price_comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace proftrace {
namespace {

// The least relative deviation between stretches, as a job that does the same work again takes a
// little more or less time.
constexpr double kLeastUnsteadiness = 0.015;
// The deviation that is assumed where there were only a few stretches with all probes.
constexpr double kUnknownUnsteadiness = 0.08;
constexpr size_t kFewestStretches = 3;
// The error of a CPU time: the kernel counts the time of a running thread from tick to tick, of
// which there may be only 250 a second.
constexpr double kClockNs = 1.6e6;
constexpr double kLeastRecordedNs = 30e6;
// How often the operator that is counted alone should be called in each nanosecond of CPU time, and
// how often at the least. A rare operator takes long to be counted, and a probe at a frequent one
// costs time itself.
constexpr double kWantedCallsPerNs = 4e-6;
constexpr double kFewestCallsPerNs = 0.4e-6;
// The error, in calls, that the two ends of a stretch add.
constexpr double kCallsAtEnds = 0.5;

double Square(double value) { return value * value; }

// Returns the predicted nanoseconds that hits take for an operator.
double PredictedNs(const ComparedStretch& stretch, const PredictedPrice& price) {
  return (stretch.hits * price.hit_ns + stretch.readings * price.reading_ns +
          stretch.jumps * price.jump_ns + stretch.stacks * price.stack_ns) /
         stretch.operators;
}

}  // namespace

void PriceComparison::SetAlone(const ComparedStretch& stretch) {
  if (stretch.operators >= kFewestOperators && stretch.cpu_ns > 0) alone_ = stretch;
}

void PriceComparison::AddRecorded(ComparedStretch stretch) {
  const bool is_counted =
      has_alone() ? stretch.operators >= kFewestOperators : !stretch.calls_by_site.empty();
  if (!wants_more() || !is_counted || stretch.cpu_ns < kLeastRecordedNs) return;
  recorded_.push_back(std::move(stretch));
  if (recorded_.size() > kMostStretches) recorded_.pop_front();
}

std::optional<uint16_t> PriceComparison::ChooseCounted() const {
  std::vector<uint64_t> calls;
  double cpu_ns = 0;
  for (const ComparedStretch& stretch : recorded_) {
    cpu_ns += stretch.cpu_ns;
    calls.resize(std::max(calls.size(), stretch.calls_by_site.size()));
    for (size_t site = 0; site < stretch.calls_by_site.size(); ++site) {
      calls[site] += stretch.calls_by_site[site];
    }
  }
  std::optional<uint16_t> chosen;
  for (size_t site = 0; site < calls.size(); ++site) {
    const auto count = static_cast<double>(calls[site]);
    const bool is_in_all =
        std::all_of(recorded_.begin(), recorded_.end(), [&](const ComparedStretch& stretch) {
          return site < stretch.calls_by_site.size() && stretch.calls_by_site[site] > 0;
        });
    if (!is_in_all || count < kFewestCallsPerNs * cpu_ns) continue;
    const double wanted = kWantedCallsPerNs * cpu_ns;
    const auto best = chosen ? static_cast<double>(calls[*chosen]) : 0.0;
    // Chooses the rarest of the operators that are called often enough, or, where there is none,
    // the most frequent.
    const bool is_better = count >= wanted ? best < wanted || count < best : count > best;
    if (is_better) chosen = static_cast<uint16_t>(site);
  }
  return chosen;
}

void PriceComparison::SetAloneAfter(const ComparedStretch& stretch, uint16_t site) {
  if (stretch.operators < kFewestCalls || stretch.cpu_ns <= 0) return;
  alone_ = stretch;
  for (ComparedStretch& recorded : recorded_) recorded.operators = recorded.calls_by_site[site];
}

double PriceComparison::Unsteadiness(double mean_ns) const {
  if (recorded_.size() < kFewestStretches) return kUnknownUnsteadiness;
  double squares = 0;
  for (const ComparedStretch& stretch : recorded_) {
    // The clock's errors at both ends are no unsteadiness of the job.
    squares += Square(stretch.cpu_ns / stretch.operators / mean_ns - 1) -
               2 * Square(kClockNs / stretch.cpu_ns);
  }
  const double variance = squares / static_cast<double>(recorded_.size() - 1);
  return std::max(kLeastUnsteadiness, std::sqrt(std::max(0.0, variance)));
}

PriceComparison::Factor PriceComparison::Find(const PredictedPrice& price) const {
  const Factor unseen{price.usual_factor, false, price.spread / price.usual_factor};
  if (!alone_.has_value() || recorded_.empty()) return unseen;
  ComparedStretch all;
  for (const ComparedStretch& stretch : recorded_) {
    all.cpu_ns += stretch.cpu_ns;
    all.operators += stretch.operators;
    all.hits += stretch.hits;
    all.readings += stretch.readings;
    all.jumps += stretch.jumps;
    all.stacks += stretch.stacks;
  }
  // All figures are for one operator.
  const double alone_ns = alone_->cpu_ns / alone_->operators;
  const double recorded_ns = all.cpu_ns / all.operators;
  const double predicted_ns = PredictedNs(all, price) - PredictedNs(*alone_, price);
  if (predicted_ns <= 0) return unseen;
  const double seen = (recorded_ns - alone_ns) / predicted_ns;
  const double unsteadiness = Unsteadiness(recorded_ns);
  const double alone_error =
      alone_ns * std::hypot(unsteadiness, std::sqrt(2.0) * kClockNs / alone_->cpu_ns,
                            kCallsAtEnds / alone_->operators);
  const double recorded_error =
      recorded_ns * unsteadiness / std::sqrt(static_cast<double>(recorded_.size()));
  const double error = std::hypot(alone_error, recorded_error) / predicted_ns;
  const double weight = 1 / Square(error);
  const double usual_weight = 1 / Square(price.spread);
  Factor factor;
  factor.value = std::max(price.least_factor, (weight * seen + usual_weight * price.usual_factor) /
                                                  (weight + usual_weight));
  factor.is_compared = weight > usual_weight;
  factor.error = 1 / std::sqrt(weight + usual_weight) / factor.value;
  return factor;
}

}  // namespace proftrace
