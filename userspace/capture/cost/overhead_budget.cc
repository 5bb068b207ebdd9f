#include "userspace/capture/cost/overhead_budget.h"

#include <algorithm>
#include <map>
#include <utility>

namespace proftrace {
namespace {

// The part of the limit that a change aims at, so that a load which sways a little needs no other
// change.
constexpr double kAim = 0.9;
// An operator is small where it takes at most this many times the cost of recording it. The
// recorded times of small operators say least, so these go first.
constexpr double kSmall = 20;
// An operator is not demoted where that would save less than this part of the excess, because its
// times are worth more.
constexpr double kLeastShare = 0.01;

struct Candidate {
  uint16_t site = 0;
  uint64_t calls = 0;
  int64_t mean_ns = 0;
  int order = 0;  // candidates with a lower order go first
};

// Orders candidates by `order`, then by calls, the most first, then by length, the shortest first.
bool GoesBefore(const Candidate& a, const Candidate& b) {
  if (a.order != b.order) return a.order < b.order;
  if (a.calls != b.calls) return a.calls > b.calls;
  return a.mean_ns != b.mean_ns ? a.mean_ns < b.mean_ns : a.site < b.site;
}

// Takes as many of the first candidates as are needed to save `too_much_ns`.
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
      sum.rank = load.rank;  // the latest look knows most
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
