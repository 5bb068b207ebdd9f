#include "userspace/capture/overhead_budget.h"

#include <algorithm>
#include <map>
#include <utility>

namespace proftrace {
namespace {

// What is aimed at when there is too much: a load that sways a little is not to call for another
// change.
constexpr double kAim = 0.9;
// An operator is small up to so many times of what recording it costs: its own times are the ones
// that say least.
constexpr double kSmall = 20;
// One whose gain is a smaller part of what is missing is not worth its times.
constexpr double kLeastShare = 0.01;

struct Candidate {
  uint16_t site = 0;
  uint64_t calls = 0;
  int64_t mean_ns = 0;
  int order = 0;  // those of a lower one go first
};

// First by order, then those that are called most, and of these the shortest.
bool GoesBefore(const Candidate& a, const Candidate& b) {
  if (a.order != b.order) return a.order < b.order;
  if (a.calls != b.calls) return a.calls > b.calls;
  return a.mean_ns != b.mean_ns ? a.mean_ns < b.mean_ns : a.site < b.site;
}

// As many of the first ones as it takes to save `too_much_ns`.
std::vector<BudgetChange> Take(std::vector<Candidate> candidates, double gain_ns_per_call,
                               double too_much_ns, BudgetStep step) {
  std::sort(candidates.begin(), candidates.end(), GoesBefore);
  std::vector<BudgetChange> changes;
  double left_ns = too_much_ns;
  for (const Candidate& candidate : candidates) {
    if (left_ns <= 0) break;
    const double gain_ns = static_cast<double>(candidate.calls) * gain_ns_per_call;
    if (gain_ns < kLeastShare * too_much_ns) continue;
    left_ns -= gain_ns;
    changes.push_back({candidate.site, step});
  }
  return changes;
}

}  // namespace

std::optional<double> OverheadBudget::Phase::percent() const {
  if (elapsed_ns <= 0) return std::nullopt;
  return 100.0 * cost_ns / static_cast<double>(elapsed_ns);
}

OverheadBudget::Phase OverheadBudget::Recent() const {
  Phase recent;
  for (const BudgetLook& look : looks_) {
    recent.elapsed_ns += look.elapsed_ns;
    recent.cost_ns += look.cost_ns;
  }
  return recent;
}

std::vector<BudgetChange> OverheadBudget::ChooseToCount(double too_much_ns) {
  std::map<uint16_t, OperatorLoad> loads;
  for (const BudgetLook& look : looks_) {
    for (const OperatorLoad& load : look.recorded) {
      OperatorLoad& sum = loads[load.site];
      sum.calls += load.calls;
      sum.duration_ns += load.duration_ns;
      sum.rank = load.rank;  // by what is known last
    }
  }
  std::vector<Candidate> candidates;
  for (const auto& [site, load] : loads) {
    if (load.rank == DemotionRank::kNever || load.calls == 0) continue;
    Candidate candidate{site, load.calls, load.duration_ns / static_cast<int64_t>(load.calls)};
    const bool is_small = static_cast<double>(candidate.mean_ns) <= kSmall * costs_.recorded;
    candidate.order = load.rank == DemotionRank::kLast ? 2 : is_small ? 0 : 1;
    candidates.push_back(candidate);
  }
  return Take(std::move(candidates), costs_.recorded - costs_.counted, too_much_ns,
              BudgetStep::kCount);
}

std::vector<BudgetChange> OverheadBudget::ChooseToRemove(double too_much_ns) {
  if (!costs_.can_remove) return {};
  std::map<uint16_t, uint64_t> calls;
  for (const BudgetLook& look : looks_) {
    for (const CountedLoad& load : look.counted) calls[load.site] += load.calls;
  }
  std::vector<Candidate> candidates;
  for (const auto& [site, count] : calls) {
    if (count > 0) candidates.push_back({site, count});
  }
  return Take(std::move(candidates), costs_.counted, too_much_ns, BudgetStep::kRemove);
}

std::vector<BudgetChange> OverheadBudget::Look(BudgetLook look) {
  phase_.elapsed_ns += look.elapsed_ns;
  phase_.cost_ns += look.cost_ns;
  looks_.push_back(std::move(look));
  if (looks_.size() > kMostLooks) looks_.pop_front();
  if (looks_.size() < kFewestLooks) return {};
  const Phase recent = Recent();
  const std::optional<double> percent = recent.percent();
  if (!percent || *percent <= max_percent_) return {};
  const double aim_ns = kAim * max_percent_ / 100 * static_cast<double>(recent.elapsed_ns);
  const double too_much_ns = recent.cost_ns - aim_ns;
  std::vector<BudgetChange> changes = ChooseToCount(too_much_ns);
  if (changes.empty()) changes = ChooseToRemove(too_much_ns);
  is_exhausted_ = changes.empty();
  if (changes.empty()) return changes;
  if (!before_percent_) before_percent_ = phase_.percent();
  looks_.clear();
  phase_ = {};
  return changes;
}

std::optional<double> OverheadBudget::before_percent() const {
  return before_percent_ ? before_percent_ : phase_.percent();
}

bool OverheadBudget::is_kept() const {
  const std::optional<double> percent = phase_.percent();
  return percent ? *percent <= max_percent_ : !before_percent_.has_value();
}

std::optional<double> OverheadBudget::after_percent() const { return phase_.percent(); }

}  // namespace proftrace
