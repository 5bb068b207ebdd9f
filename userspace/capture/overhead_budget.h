// Decides which operators of a process are only counted, so that recording it takes no more than a
// part of its time (--max-overhead). It sees what was recorded, look by look, and what that costs;
// others carry out what it says (budget_keeper.h). Nothing is taken back: an operator that was
// demoted stays so (docs/decisions/0043).
//
// One object a process. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace proftrace {

// How much of the job's time a call takes, in nanoseconds.
struct BudgetCosts {
  double recorded = 0;  // begin and end
  double counted = 0;
  bool can_remove = false;  // whether a counted operator can be left alone altogether
};

// How willingly an operator is demoted.
enum class DemotionRank : uint8_t {
  kNever,  // others have their place by it: it has children, or steps are told by it
  kLast,   // where the others are not enough
  kUsual,
};

// What threads did since the last look; a site may come several times.
struct OperatorLoad {
  uint16_t site = 0;
  uint64_t calls = 0;
  int64_t duration_ns = 0;  // of all calls together
  DemotionRank rank = DemotionRank::kUsual;
};
struct CountedLoad {
  uint16_t site = 0;
  uint64_t calls = 0;
};
struct BudgetLook {
  int64_t elapsed_ns = 0;  // the process's own time, without that of recording and counting
  double cost_ns = 0;      // of these, for all its threads
  std::vector<OperatorLoad> recorded;
  std::vector<CountedLoad> counted;
};

enum class BudgetStep : uint8_t {
  kCount,   // from here on it is only counted
  kRemove,  // … and from here on not even that
};
struct BudgetChange {
  uint16_t site = 0;
  BudgetStep step = BudgetStep::kCount;

  bool operator==(const BudgetChange&) const = default;
};

class OverheadBudget {
 public:
  // So many looks are taken together, and fewer than the second say nothing.
  static constexpr size_t kMostLooks = 4;
  static constexpr size_t kFewestLooks = 2;

  OverheadBudget(double max_percent, const BudgetCosts& costs)
      : max_percent_(max_percent), costs_(costs) {}

  // Takes what was measured while nothing was being changed. Returns what is to change now.
  std::vector<BudgetChange> Look(BudgetLook look);
  // Sets the costs as they were measured in the job since.
  void SetCosts(const BudgetCosts& costs) { costs_ = costs; }

  // Return the overhead until the first change, and since the last one; nullopt before there was a
  // look.
  std::optional<double> before_percent() const;
  std::optional<double> after_percent() const;
  // Whether the budget is kept; false also where nothing was measured since the last change.
  bool is_kept() const;
  // Whether there were enough looks since the last change to say how it went.
  bool has_measured() const { return looks_.size() >= kFewestLooks; }
  // Whether the budget was not kept, and nothing was left to be demoted.
  bool is_exhausted() const { return is_exhausted_; }

 private:
  struct Phase {
    int64_t elapsed_ns = 0;
    double cost_ns = 0;

    std::optional<double> percent() const;
  };

  // Sums up the looks at hand.
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
