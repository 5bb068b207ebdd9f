#include "userspace/steps/step_finder.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "userspace/steps/step_rounds.h"

namespace proftrace {
namespace {

// A step that takes this many times as long as the others has something else before or after it.
constexpr double kMuchLonger = 1.5;
// The time between two steps belongs to the first of them, unless it takes at least this part of a
// step.
constexpr double kOwnPhase = 1.0;
constexpr double kSureOfWhole = 0.9;
constexpr double kMuchAlike = 0.6;
// Next to a pause a round may be this many times shorter than usual.
constexpr size_t kFewest = 4;
// The time from a step's last call to the next step matters if it is more than a round divided by
// this.
constexpr int64_t kRestThatMatters = 20;

bool Opens(const StepRule& rule, std::span<const StepItem> items, size_t at) {
  if (at + rule.opening.size() > items.size()) return false;
  for (size_t i = 0; i < rule.opening.size(); ++i) {
    if (items[at + i].symbol != rule.opening[i]) return false;
  }
  return true;
}

// Returns where in [first, marker] a round opens: at the usual distance from the marker, or as near
// to that as possible.
std::optional<size_t> OpeningNear(const StepRule& rule, std::span<const StepItem> items,
                                  size_t first, size_t marker) {
  std::optional<size_t> best;
  int64_t best_distance = 0;
  for (size_t at = first; at <= marker; ++at) {
    if (!Opens(rule, items, at)) continue;
    const int64_t distance =
        std::llabs(static_cast<int64_t>(marker - at) - static_cast<int64_t>(rule.lead_items));
    if (best.has_value() && distance > best_distance) continue;
    best = at;
    best_distance = distance;
  }
  return best;
}

// Returns the start of the round whose first marker is the first of all; nullopt: the round is not
// there as a whole.
std::optional<size_t> FirstRoundStart(const StepRule& rule, std::span<const StepItem> items,
                                      size_t marker) {
  if (rule.has_uneven_leads) return std::nullopt;  // the length of a whole round is not known
  const std::optional<size_t> at = OpeningNear(rule, items, 0, marker);
  if (!at.has_value()) return std::nullopt;
  const double length = static_cast<double>(marker - *at);
  if (std::abs(length - rule.lead_items) > 0.1 * rule.lead_items) return std::nullopt;
  const Signature signature = SignatureOf(items.subspan(*at, marker - *at + 1));
  // The part of the usual segment before the round's start does not count here, because it may be
  // missing.
  if (1 - MissingPart(rule.slots.front(), signature) < kSureOfWhole) return std::nullopt;
  return at;
}

// Returns the start of a round, which lies between `previous`, the last marker before, and
// `marker`, the round's first one.
size_t RoundStart(const StepRule& rule, std::span<const StepItem> items, size_t previous,
                  size_t marker, bool is_all_its_own) {
  const size_t behind = BehindAnnotations(items, previous, marker, rule.round_ns);
  const size_t usual = std::min(std::max(previous + 1 + rule.tail_items, behind), marker);
  const bool may_be_of_any_length = rule.begins_sampling || rule.has_uneven_leads;
  if (may_be_of_any_length || is_all_its_own || marker - usual == rule.lead_items) return usual;
  const double lead_ns = static_cast<double>(items[marker].end_ns - items[usual].start_ns);
  if (lead_ns > kMuchLonger * static_cast<double>(rule.round_ns)) {
    return OpeningNear(rule, items, usual, marker).value_or(usual);
  }
  for (size_t at = usual; at <= marker; ++at) {
    if (Opens(rule, items, at)) return at;
  }
  return usual;
}

// Returns the longest time in which nothing ran, from `from_ns` over the items [begin, end) to item
// `end`. While somebody else has the processor, no phase of the job is at work.
int64_t LongestGap(std::span<const StepItem> items, size_t begin, size_t end, int64_t from_ns) {
  int64_t longest = 0;
  int64_t busy_until_ns = from_ns;
  for (size_t at = begin; at <= end && at < items.size(); ++at) {
    longest = std::max(longest, items[at].start_ns - busy_until_ns);
    busy_until_ns = std::max(busy_until_ns, items[at].busy_until_ns());
  }
  return longest;
}

// The median duration of the calls of each name.
class TypicalTimes {
 public:
  explicit TypicalTimes(std::span<const StepItem> items) {
    std::map<uint32_t, std::vector<int64_t>> times;
    for (const StepItem& item : items) {
      if (item.busy_until_ns() > item.start_ns) {
        times[item.symbol].push_back(item.end_ns - item.start_ns);
      }
    }
    for (auto& [symbol, all] : times) {
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
      std::nth_element(all.begin(), middle, all.end());
      typical_[symbol] = *middle;
    }
  }

  // Returns by how much the most delayed of the items [begin, end) took longer than usual. Only one
  // item counts, because calls that all take longer have more to do.
  int64_t LongestDelay(std::span<const StepItem> items, size_t begin, size_t end) const {
    int64_t longest = 0;
    for (size_t at = begin; at < end; ++at) {
      const auto known = typical_.find(items[at].symbol);
      if (known == typical_.end()) continue;
      longest = std::max(longest, items[at].busy_until_ns() - items[at].start_ns - known->second);
    }
    return longest;
  }

 private:
  std::map<uint32_t, int64_t> typical_;
};

// Returns whether the item is an annotation that is not over at `time_ns`.
bool GoesOn(const StepItem& item, int64_t time_ns) {
  return item.item_class == ItemClass::kAnnotation && (item.is_open || item.end_ns > time_ns);
}

// Finds the annotations around items. Items must be asked for in ascending order.
class AnnotationsAround {
 public:
  explicit AnnotationsAround(std::span<const StepItem> items) : items_(items) {}

  // Returns the earliest end of the annotations around the item `index` that are not over at
  // `time_ns`.
  int64_t EndAt(size_t index, int64_t time_ns) {
    std::erase_if(open_, [&](size_t at) { return !GoesOn(items_[at], items_[index].start_ns); });
    for (; next_ < index; ++next_) {
      const StepItem& item = items_[next_];
      if (!item.is_open && GoesOn(item, items_[index].start_ns)) open_.push_back(next_);
    }
    int64_t end_ns = INT64_MAX;
    for (const size_t at : open_) {
      if (items_[at].end_ns >= time_ns) end_ns = std::min(end_ns, items_[at].end_ns);
    }
    return end_ns;
  }

 private:
  std::span<const StepItem> items_;
  size_t next_ = 0;
  std::vector<size_t> open_;
};

// Sets the times of a step from its own items.
void SetOwnTimes(std::span<const StepItem> items, size_t index, std::vector<StepRange>* ranges) {
  StepRange& range = (*ranges)[index];
  // An annotation that begins in the step and is over before the next call belongs to the step. One
  // that goes on is around the step.
  const size_t behind = index + 1 < ranges->size() ? (*ranges)[index + 1].begin : range.end;
  const int64_t most_ns = behind < items.size() ? items[behind].start_ns : INT64_MAX;
  while (range.begin + 1 < range.end && GoesOn(items[range.begin], most_ns)) ++range.begin;
  range.step.start_ns = items[range.begin].start_ns;
  range.step.end_ns = range.step.start_ns;
  for (size_t at = range.begin; at < range.end; ++at) {
    range.step.end_ns =
        std::max(range.step.end_ns,
                 GoesOn(items[at], most_ns) ? items[at].busy_until_ns() : items[at].end_ns);
  }
}

// Sets the end of the last step, which no other one follows. Where the loop then paused, the step
// lasts as long as its own items. Where the recording ended first, the time up to the next step,
// `rests_ns` in the others, is its part too, if that is usually a part that matters.
void SetLastTime(const StepRule& rule, std::span<const StepItem> items, const StepEdges& edges,
                 std::vector<int64_t> rests_ns, std::vector<StepRange>* ranges) {
  StepRange& range = ranges->back();
  if (edges.ends_with_step) {
    if (range.end < items.size() && items.back().end_ns - range.step.end_ns < rule.round_ns) {
      range.end = items.size();
      range.step.end_ns = std::max(range.step.end_ns, items.back().end_ns);
    }
  } else if (ReorderingMedian(rests_ns) > rule.round_ns / kRestThatMatters) {
    range.step.is_cut = range.end == items.size();
    if (!range.step.is_cut) {
      range.step.end_ns = std::max(range.step.end_ns, items[range.end].start_ns);
    }
  }
}

// Sets the times of the steps. A step lasts until the next one starts, unless a phase of its own
// lies between the two.
void SetTimes(const StepRule& rule, std::span<const StepItem> items, const StepEdges& edges,
              std::vector<StepRange>* ranges) {
  if (ranges->empty()) return;
  std::optional<TypicalTimes> typical;  // seldom needed
  AnnotationsAround around(items);
  const double own_phase_ns = kOwnPhase * static_cast<double>(rule.round_ns);
  std::vector<int64_t> rests_ns;
  for (size_t i = 0; i < ranges->size(); ++i) {
    SetOwnTimes(items, i, ranges);
    if (i + 1 == ranges->size()) break;
    StepRange& range = (*ranges)[i];
    const size_t next = (*ranges)[i + 1].begin;
    const int64_t next_ns = items[next].start_ns;
    int64_t between_ns =
        next_ns - range.step.end_ns - LongestGap(items, range.end, next, range.step.end_ns);
    if (next > range.end && static_cast<double>(between_ns) > own_phase_ns) {
      if (!typical) typical.emplace(items);
      const int64_t delay_ns = typical->LongestDelay(items, range.end, next);
      if (delay_ns > between_ns / 2) between_ns -= delay_ns;
      if (static_cast<double>(between_ns) > own_phase_ns) continue;
    }
    range.end = next;
    const int64_t end_ns = std::min(next_ns, around.EndAt(range.begin, range.step.end_ns));
    rests_ns.push_back(end_ns - range.step.end_ns);
    range.step.end_ns = end_ns;
  }
  SetLastTime(rule, items, edges, std::move(rests_ns), ranges);
}

// Returns for each segment before a marker whether it holds more than usual: more items, or, where
// a round has several markers and several kinds of segments, more time. (By time alone, a round
// that was disturbed would count too.)
std::vector<bool> LongOnes(const StepRule& rule, std::span<const StepItem> items,
                           std::span<const size_t> markers) {
  std::vector<bool> long_ones;
  int64_t before_ns = items.empty() ? 0 : items.front().start_ns;
  size_t before = 0;
  for (const size_t marker : markers) {
    const int64_t length_ns = items[marker].end_ns - before_ns;
    const bool takes_longer =
        static_cast<double>(length_ns) > kMuchLonger * static_cast<double>(rule.round_ns);
    const bool holds_more = marker - before > size_t{rule.tail_items} + rule.lead_items + 1;
    long_ones.push_back(rule.period == 1 ? holds_more : takes_longer);
    before_ns = items[marker].end_ns;
    before = marker;
  }
  return long_ones;
}

std::vector<StepRange> RangesByEnds(const StepRule& rule, std::span<const StepItem> items,
                                    std::span<const size_t> markers, const StepEdges& edges) {
  const bool begins_with_step = edges.begins_with_step;
  const std::vector<uint32_t> places = PlacesInRound(rule, items, markers, begins_with_step);
  std::vector<bool> long_ones = LongOnes(rule, items, markers);
  // Before the first round lies the rest of a round in which the recording began.
  if (!begins_with_step && !long_ones.empty()) long_ones.front() = false;
  std::vector<StepRange> ranges;
  std::optional<size_t> start;
  for (size_t i = 0; i < markers.size(); ++i) {
    if (places[i] == 0) {
      if (i > 0) {
        // Several longer rounds in a row have more to do. Something between two rounds makes only
        // one segment longer.
        const bool in_a_row =
            long_ones[i] && (long_ones[i - 1] || (i + 1 < markers.size() && long_ones[i + 1]));
        start = RoundStart(rule, items, markers[i - 1], markers[i], in_a_row);
      } else {
        start =
            begins_with_step ? std::optional<size_t>(0) : FirstRoundStart(rule, items, markers[i]);
      }
    } else if (i == 0 && begins_with_step) {
      start = 0;
    }
    const bool is_last = i + 1 < markers.size() ? places[i + 1] == 0 : places[i] + 1 >= rule.period;
    if (!is_last || !start.has_value()) continue;
    const auto next = i + 1 < markers.size() ? std::optional<size_t>(markers[i + 1]) : std::nullopt;
    size_t end = std::max(markers[i] + 1 + rule.tail_items,
                          BehindAnnotations(items, markers[i], next, rule.round_ns));
    if (end > items.size()) {
      if (!edges.ends_with_step) break;  // the recording ended in it
      end = items.size();
    }
    if (!ranges.empty()) ranges.back().end = std::min(ranges.back().end, *start);
    ranges.push_back({*start, end, {}});
    start.reset();
  }
  return ranges;
}

// Returns which part of the `count` calls from `a` on are equal to those from `b` on, from 0 to 1.
double PartAlike(std::span<const StepItem> items, size_t a, size_t b, size_t count) {
  size_t alike = 0;
  for (size_t i = 0; i < count && std::max(a, b) + i < items.size(); ++i) {
    alike += items[a + i].symbol == items[b + i].symbol;
  }
  return count == 0 ? 0 : static_cast<double>(alike) / static_cast<double>(count);
}

std::vector<StepRange> RangesByBegins(const StepRule& rule, std::span<const StepItem> items,
                                      std::span<const size_t> markers, const StepEdges& edges) {
  std::vector<StepRange> ranges;
  const size_t tail = rule.tail_items;
  const size_t usual = rule.round_items;
  if (!markers.empty() && rule.kind == StepRule::Kind::kPeriodic) {
    const size_t first = markers.front() + tail;
    if (edges.begins_with_step && first <= items.size()) {
      const size_t seen = std::min(first, usual);
      // Rounds of the same length have the same order of calls; others have similar contents.
      const bool is_round =
          PartAlike(items, first - seen, first + usual - seen, seen) >= kMuchAlike ||
          Similarity(SignatureOf(items.first(first)), rule.slots.front()) >= kMuchAlike;
      if (is_round && first * kFewest >= usual) ranges.push_back({0, first, {}});
    } else if (first >= usual && first <= items.size()) {
      const Signature signature = SignatureOf(items.subspan(first - usual, usual));
      if (Similarity(signature, rule.slots.front()) >= kSureOfWhole) {
        ranges.push_back({first - usual, first, {}});
      }
    }
  }
  for (size_t i = 0; i < markers.size(); ++i) {
    const size_t begin = markers[i] + tail;
    if (i + 1 == markers.size()) {
      if (begin + usual <= items.size()) {
        ranges.push_back({begin, edges.ends_with_step ? items.size() : begin + usual, {}});
      } else if (edges.ends_with_step && begin + usual / kFewest < items.size()) {
        ranges.push_back({begin, items.size(), {}});
      }
      break;
    }
    size_t end = markers[i + 1] + tail;
    if (end > items.size()) break;
    const double length_ns = static_cast<double>(items[end - 1].end_ns - items[begin].start_ns);
    if (end - begin > usual && length_ns > kMuchLonger * static_cast<double>(rule.round_ns)) {
      end = begin + usual;
    }
    ranges.push_back({begin, end, {}});
  }
  return ranges;
}

}  // namespace

std::vector<StepRange> FindStepRanges(const StepRule& rule, std::span<const StepItem> items,
                                      const StepEdges& edges) {
  const std::vector<size_t> markers = MarkersOf(rule, items);
  std::vector<StepRange> ranges;
  if (rule.kind == StepRule::Kind::kProfilerStep) {
    for (const size_t marker : markers) {
      const StepItem& item = items[marker];
      ranges.push_back({marker, marker + 1, {item.start_ns, item.end_ns, item.symbol}});
    }
    return ranges;
  }
  if (rule.ends_with_marker()) {
    ranges = RangesByEnds(rule, items, markers, edges);
  } else if (rule.kind != StepRule::Kind::kNone) {
    ranges = RangesByBegins(rule, items, markers, edges);
  }
  SetTimes(rule, items, edges, &ranges);
  return ranges;
}

void StepFinder::Learn() {
  // With half as many items again, a loop may show that could not be seen before.
  if (rule_.kind != StepRule::Kind::kNone && items_.size() < learned_from_ * 3 / 2) return;
  if (rule_.kind == StepRule::Kind::kNone && items_.size() < learned_from_ * 9 / 8) return;
  learned_from_ = items_.size();
  StepRule rule = LearnStepRule(items_, settled_.empty() ? start_ns_ : items_.front().start_ns);
  if (rule.kind == StepRule::Kind::kNone && rule_.kind != StepRule::Kind::kNone) return;
  // If few items of a long step are kept, the better evidence may be missing among them.
  if (rule_.ends_with_marker() && !rule.ends_with_marker() && !settled_.empty()) return;
  rule_ = std::move(rule);
}

// Sets the edges: where nothing ran for longer than any pause in a round, no round was under way.
void StepFinder::FindEdges(int64_t now_ns) {
  if (items_.empty() || rule_.pause_ns <= 0) return;
  if (settled_.empty() && rule_.begins_with_round(items_.front().start_ns, start_ns_)) {
    edges_.begins_with_step = true;
  }
  edges_.ends_with_step = now_ns - items_.back().end_ns > rule_.pause_ns && !items_.back().is_open;
}

void StepFinder::Look(int64_t now_ns) {
  Learn();
  FindEdges(now_ns);
  tentative_ = FindStepRanges(rule_, items_, edges_);
  if (let_go_start_ns_.has_value() && !tentative_.empty() && tentative_.front().begin == 0) {
    tentative_.front().step.start_ns = *let_go_start_ns_;
  }
  const size_t found = settled_.size() + tentative_.size();
  if (tentative_.size() >= best_steps_ || settled_.empty()) {
    best_rule_ = rule_;
    best_steps_ = tentative_.size();
  }
  // Few whole steps are little evidence, however they were found.
  if (found == 0) best_rule_.confidence = std::min(best_rule_.confidence, 0.3);
}

void StepFinder::LetGo() {
  Look(items_.back().start_ns);
  size_t keep_from = items_.size() / 2;
  if (!tentative_.empty()) {
    // The ends of the last two steps may still change, so these are not settled unless they take
    // most of the kept items. A step follows the last settled one.
    size_t settle = tentative_.size() > 2 ? tentative_.size() - 2 : 0;
    while (settle < tentative_.size() && tentative_[settle].begin < items_.size() / 4) ++settle;
    for (size_t i = 0; i < settle; ++i) settled_.push_back(tentative_[i].step);
    const bool are_all = settle == tentative_.size();
    keep_from = are_all ? tentative_.back().end : tentative_[settle].begin;
    edges_.begins_with_step = true;
    let_go_start_ns_.reset();
  } else if (edges_.begins_with_step) {  // the step has more items than are kept
    if (!let_go_start_ns_.has_value()) let_go_start_ns_ = items_.front().start_ns;
  }
  tentative_.clear();
  if (settled_.size() / 2 > max_steps_) {
    const size_t over = settled_.size() - max_steps_;
    settled_.erase(settled_.begin(), settled_.begin() + static_cast<ptrdiff_t>(over));
    let_go_ += over;
  }
  items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(keep_from));
  items_let_go_ += keep_from;
  learned_from_ = items_.size();
}

std::vector<FoundStep> StepFinder::steps() const {
  std::vector<FoundStep> all = settled_;
  for (const StepRange& range : tentative_) all.push_back(range.step);
  return all;
}

}  // namespace proftrace
