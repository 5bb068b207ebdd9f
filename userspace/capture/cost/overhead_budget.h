// Decides which operators of a process are only counted, so that recording the process takes no
// more than a part of its time (--max-overhead). It gets the recorded calls and their cost, look by
// look; BudgetKeeper carries out its changes (budget_keeper.h). An operator that was demoted stays
// demoted (docs/decisions/0043).
//
// There is one object for each process. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace proftrace {

// The job's time that a call takes, in nanoseconds.
struct BudgetCosts {
  double recorded = 0;  // for a call whose begin and end are recorded
  double counted = 0;
  bool can_remove = false;  // whether the probe that counts an operator can be removed, too
};

// How willingly an operator is demoted.
enum class DemotionRank : uint8_t {
  kNever,  // other rows depend on it: it has children, or marks steps
  kLast,   // only where demoting the others is not enough
  kUsual,
};

// The calls of an operator since the last look. A look may have several entries for a site.
struct OperatorLoad {
  uint16_t site = 0;
  uint64_t calls = 0;
  int64_t duration_ns = 0;  // the time that all these calls took together
  DemotionRank rank = DemotionRank::kUsual;
};
struct CountedLoad {
  uint16_t site = 0;
  uint64_t calls = 0;
};
struct BudgetLook {
  int64_t elapsed_ns = 0;  // the process's own time, without the time of recording and counting
  double cost_ns = 0;      // of recording and counting, for all its threads
  std::vector<OperatorLoad> recorded;
  std::vector<CountedLoad> counted;
};

enum class BudgetStep : uint8_t {
  kCount,   // from here on the operator is only counted
  kRemove,  // from here on the operator is not even counted
};
struct BudgetChange {
  uint16_t site = 0;
  BudgetStep step = BudgetStep::kCount;

  bool operator==(const BudgetChange&) const = default;
};

class OverheadBudget {
 public:
  // At most kMostLooks of the last looks are added up, and there must be kFewestLooks for a
  // decision.
  static constexpr size_t kMostLooks = 4;
  static constexpr size_t kFewestLooks = 2;

  OverheadBudget(double max_percent, const BudgetCosts& costs)
      : max_percent_(max_percent), costs_(costs) {}

  // Takes a look, during which nothing was being changed. Returns the changes that are to be made
  // now.
  std::vector<BudgetChange> Look(BudgetLook look);
  // Replaces the costs by ones that were measured in the job since.
  void SetCosts(const BudgetCosts& costs) { costs_ = costs; }

  // Return the overhead, in percent, until the first change and since the last one; nullopt where
  // there was no look in that time.
  std::optional<double> before_percent() const;
  std::optional<double> after_percent() const;
  // Whether the budget is kept; false also where nothing was measured since the last change.
  bool is_kept() const;
  // Whether there were enough looks since the last change to tell its effect.
  bool has_measured() const { return looks_.size() >= kFewestLooks; }
  // Whether the budget was not kept, and nothing was left to be demoted.
  bool is_exhausted() const { return is_exhausted_; }

 private:
  struct Phase {
    int64_t elapsed_ns = 0;
    double cost_ns = 0;

    std::optional<double> percent() const;
  };

  // Adds up the looks in looks_.
  Phase Recent() const;
  std::vector<BudgetChange> ChooseToCount(double too_much_ns);
  std::vector<BudgetChange> ChooseToRemove(double too_much_ns);

  double max_percent_;
  BudgetCosts costs_;
  std::deque<BudgetLook> looks_;  // since the last change
  Phase phase_;                   // all looks since the last change
  std::optional<double> before_percent_;
  bool is_exhausted_ = false;
};

}  // namespace proftrace
