#include "userspace/capture/price_comparison.h"

#include <algorithm>
#include <cmath>

namespace proftrace {
namespace {

// A job that does the same again takes a little more or less for it.
constexpr double kLeastUnsteadiness = 0.015;
// What is taken where there were only a few stretches with all probes.
constexpr double kUnknownUnsteadiness = 0.04;
constexpr size_t kFewestStretches = 3;
// The kernel counts the time of a thread that runs from tick to tick, of which there may be no more
// than 250 a second.
constexpr double kClockNs = 1.6e6;
constexpr double kLeastRecordedNs = 30e6;
// A hit is never cheaper than one that finds all caches warm.
constexpr double kLeastFactor = 0.9;

double Square(double value) { return value * value; }

// What the hits of an operator take.
double PredictedNs(const ComparedStretch& stretch, const PredictedPrice& price) {
  return (stretch.hits * price.hit_ns + stretch.readings * price.reading_ns) / stretch.operators;
}

}  // namespace

void PriceComparison::SetAlone(const ComparedStretch& stretch) {
  if (stretch.operators >= kFewestOperators && stretch.cpu_ns > 0) alone_ = stretch;
}

void PriceComparison::AddRecorded(const ComparedStretch& stretch) {
  const bool is_enough =
      stretch.operators >= kFewestOperators && stretch.cpu_ns >= kLeastRecordedNs;
  if (wants_more() && is_enough) recorded_.push_back(stretch);
}

double PriceComparison::Unsteadiness(double mean_ns) const {
  if (recorded_.size() < kFewestStretches) return kUnknownUnsteadiness;
  double squares = 0;
  for (const ComparedStretch& stretch : recorded_) {
    // What the clock is wrong by at both ends is not the job's.
    squares += Square(stretch.cpu_ns / stretch.operators / mean_ns - 1) -
               2 * Square(kClockNs / stretch.cpu_ns);
  }
  const double variance = squares / static_cast<double>(recorded_.size() - 1);
  return std::max(kLeastUnsteadiness, std::sqrt(std::max(0.0, variance)));
}

PriceComparison::Factor PriceComparison::Find(const PredictedPrice& price) const {
  const Factor unseen{price.usual_factor, false};
  if (!alone_.has_value() || recorded_.empty()) return unseen;
  ComparedStretch all;
  for (const ComparedStretch& stretch : recorded_) {
    all.cpu_ns += stretch.cpu_ns;
    all.operators += stretch.operators;
    all.hits += stretch.hits;
    all.readings += stretch.readings;
  }
  // All by operator.
  const double alone_ns = alone_->cpu_ns / alone_->operators;
  const double recorded_ns = all.cpu_ns / all.operators;
  const double predicted_ns = PredictedNs(all, price) - PredictedNs(*alone_, price);
  if (predicted_ns <= 0) return unseen;
  const double seen = (recorded_ns - alone_ns) / predicted_ns;
  const double unsteadiness = Unsteadiness(recorded_ns);
  const double alone_error =
      alone_ns * std::hypot(unsteadiness, std::sqrt(2.0) * kClockNs / alone_->cpu_ns);
  const double recorded_error =
      recorded_ns * unsteadiness / std::sqrt(static_cast<double>(recorded_.size()));
  const double error = std::hypot(alone_error, recorded_error) / predicted_ns;
  const double weight = 1 / Square(error);
  const double usual_weight = 1 / Square(price.spread);
  Factor factor;
  factor.value = std::max(
      kLeastFactor, (weight * seen + usual_weight * price.usual_factor) / (weight + usual_weight));
  factor.is_compared = weight > usual_weight;
  return factor;
}

}  // namespace proftrace
