// Finds the steps of one thread in the stream of its items. Memory is bounded, because items from
// before the last steps are dropped. The same code runs while recording and on a finished
// recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "userspace/steps/step_item.h"
#include "userspace/steps/step_rule.h"

namespace proftrace {

// A whole step. Steps in which the recording began or ended are left out.
struct FoundStep {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t symbol = 0;  // kProfilerStep: the annotation's symbol; otherwise meaningless
  // Whether the recording ended before it was known when the next step begins, in a loop where the
  // time up to that is a part of the steps that matters: the step took longer than these times say.
  bool is_cut = false;
};

// A step among the items of a vector.
struct StepRange {
  size_t begin = 0;
  size_t end = 0;
  FoundStep step;
};

// Tells of a stretch of items whether the first item begins a step, and whether the last item ends
// a step.
struct StepEdges {
  bool begins_with_step = false;
  bool ends_with_step = false;
};

// Returns the whole steps among `items`, in order.
std::vector<StepRange> FindStepRanges(const StepRule& rule, std::span<const StepItem> items,
                                      const StepEdges& edges);

class StepFinder {
 public:
  // `max_items`: the most items that are kept to learn from. `start_ns`: when the recording began.
  // `max_steps`: about this many of the last steps are kept, at most twice as many.
  StepFinder(size_t max_items, int64_t start_ns, size_t max_steps = SIZE_MAX / 2)
      : max_items_(max_items), max_steps_(max_steps), start_ns_(start_ns) {}

  // Adds an item. Items must come in order of their start.
  void Add(const StepItem& item) {
    if (!items_.empty() && items_.back().may_be_entering && IsAnnotation(item.item_class)) {
      const int64_t start_ns = items_.back().start_ns;
      items_.back() = item;
      items_.back().start_ns = start_ns;
      return;
    }
    items_.push_back(item);
    if (items_.size() >= max_items_) LetGo();
  }
  // Returns the item that was added last, so that its end can be set later; nullptr: it was
  // dropped.
  StepItem* last() { return items_.empty() ? nullptr : &items_.back(); }

  // added() returns how many items were added and not removed again. ItemOf() returns the item with
  // a number, counted from 0 on; nullptr: it was dropped.
  uint64_t added() const { return items_let_go_ + items_.size(); }
  StepItem* ItemOf(uint64_t number) {
    return number < items_let_go_ || number >= added() ? nullptr : &items_[number - items_let_go_];
  }

  // Removes the item that was added last.
  void RemoveLast() {
    if (!items_.empty()) items_.pop_back();
  }

  // Looks for steps in all items that were added up to the time `now_ns`.
  void Look(int64_t now_ns);

  // Returns the steps that Look() found. The last ones may still change when items are added.
  std::vector<FoundStep> steps() const;
  size_t count() const { return let_go_ + settled_.size() + tentative_.size(); }
  // Returns how many steps came before the first one of steps() and were dropped.
  size_t let_go() const { return let_go_; }
  size_t kept_items() const { return items_.size(); }
  // Returns the rule that most steps were found by.
  const StepRule& rule() const { return best_rule_; }
  // Returns how sure the thread's evidence as a whole is.
  double confidence() const { return best_rule_.confidence; }

 private:
  void Learn();
  void FindEdges(int64_t now_ns);
  void LetGo();

  size_t max_items_;
  size_t max_steps_;
  size_t let_go_ = 0;
  uint64_t items_let_go_ = 0;
  std::vector<StepItem> items_;
  StepRule rule_;       // the rule of the items that are kept now
  StepRule best_rule_;  // the rule that most steps so far were found by
  size_t best_steps_ = 0;
  size_t learned_from_ = 0;  // number of items that `rule_` was learned from
  int64_t start_ns_;
  StepEdges edges_;
  std::optional<int64_t> let_go_start_ns_;  // start of the step that the first item is in
  std::vector<FoundStep> settled_;
  std::vector<StepRange> tentative_;
};

}  // namespace proftrace
