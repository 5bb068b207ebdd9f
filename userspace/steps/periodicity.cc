#include "userspace/steps/periodicity.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "userspace/steps/step_rounds.h"

namespace proftrace {
namespace {

constexpr std::array<size_t, 8> kLengths = {1, 2, 3, 4, 6, 8, 12, 16};
// The most items that are looked at, which bounds the work. They hold enough rounds of any model to
// see its loop.
constexpr size_t kMaxItems = 24'000;
constexpr size_t kMinRounds = 3;
constexpr double kOneKind = 0.75;
constexpr double kRegular = 0.8;
constexpr double kRegularInner = 0.9;
// How many sequences are tried for each number of rounds. All sequences of one round are equally
// good.
constexpr int kTriesEach = 4;
// How much the distances between rounds may vary: kMostVariation where rounds make data, because
// prompts differ in length; kEvenVariation where only a pattern of names repeats.
constexpr double kMostVariation = 0.7;
constexpr double kEvenVariation = 0.15;

struct Candidate {
  std::vector<uint32_t> symbols;
  std::vector<size_t> markers;
  double regularity = 0;
};

// Returns the positions of each sequence of `length` symbols, found by a rolling hash. Only
// sequences are returned that may come once in each round of a loop with enough rounds, in the
// order of their first positions.
std::vector<std::vector<size_t>> Occurrences(std::span<const StepItem> items, size_t length) {
  constexpr uint64_t kBase = 0x9e3779b97f4a7c15ull;
  absl::flat_hash_map<uint64_t, std::vector<size_t>> found;
  uint64_t top = 1;
  for (size_t i = 0; i < length; ++i) top *= kBase;
  uint64_t hash = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    hash = hash * kBase + items[i].symbol + 1;
    if (i >= length) hash -= (uint64_t{items[i - length].symbol} + 1) * top;
    if (i + 1 < length) continue;
    found[hash].push_back(i + 1 - length);
  }
  std::vector<std::vector<size_t>> occurrences;
  for (auto& [key, positions] : found) {
    if (positions.size() > kMinRounds) occurrences.push_back(std::move(positions));
  }
  std::sort(occurrences.begin(), occurrences.end());
  return occurrences;
}

// Returns whether rounds begin with the same items. This is checked because long stretches of any
// items have similar contents.
bool BeginAlike(std::span<const StepItem> items, const std::vector<Segment>& segments) {
  constexpr size_t kFirstItems = 16;
  constexpr double kLeastAlike = 0.3;
  size_t compared = 0;
  size_t alike = 0;
  for (size_t i = 1; i < segments.size(); ++i) {
    const size_t a = segments[i - 1].begin;
    const size_t b = segments[i].begin;
    const size_t length = std::min({kFirstItems, b - a, segments[i].end - b});
    for (size_t at = 0; at < length; ++at) {
      ++compared;
      alike += items[a + at].symbol == items[b + at].symbol;
    }
  }
  return static_cast<double>(alike) >= kLeastAlike * static_cast<double>(compared);
}

// Returns how evenly the loop runs: the part of the stretch's time that lies in rounds with the
// same contents as the round before.
double Regularity(std::span<const StepItem> items, const std::vector<Segment>& segments) {
  int64_t alike_ns = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& other = segments[i == 0 ? 1 : i - 1];
    if (Similarity(segments[i].signature, other.signature) >= kOneKind) {
      alike_ns += segments[i].duration_ns;
    }
  }
  if (!BeginAlike(items, segments)) return 0;
  const int64_t all_ns = items.back().end_ns - items.front().start_ns;
  return all_ns <= 0 ? 0 : static_cast<double>(alike_ns) / static_cast<double>(all_ns);
}

// Returns one candidate for each number of rounds: the most regular one; of equal ones the
// shortest, and of these the first.
std::vector<Candidate> FindCandidates(std::span<const StepItem> items) {
  absl::flat_hash_map<size_t, Candidate> by_count;
  for (const size_t length : kLengths) {
    absl::flat_hash_map<size_t, int> tried;
    for (std::vector<size_t>& positions : Occurrences(items, length)) {
      Candidate& best = by_count[positions.size()];
      if (best.regularity > 0.98 || ++tried[positions.size()] > kTriesEach) continue;
      const double regularity = Regularity(items, SegmentsBetween(items, positions));
      if (regularity <= best.regularity + 0.02) continue;
      best.regularity = regularity;
      best.symbols.clear();
      for (size_t i = 0; i < length; ++i) {
        best.symbols.push_back(items[positions.front() + i].symbol);
      }
      best.markers = std::move(positions);
    }
  }
  std::vector<Candidate> candidates;
  for (auto& [count, candidate] : by_count) {
    if (candidate.regularity >= kRegular) candidates.push_back(std::move(candidate));
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.markers.size() < b.markers.size();
  });
  return candidates;
}

// Returns the spread of the distances between markers, relative to their mean.
double Variation(const std::vector<size_t>& markers) {
  const double rounds = static_cast<double>(markers.size() - 1);
  const double mean = static_cast<double>(markers.back() - markers.front()) / rounds;
  double squares = 0;
  for (size_t i = 1; i < markers.size(); ++i) {
    const double distance = static_cast<double>(markers[i] - markers[i - 1]);
    squares += (distance - mean) * (distance - mean);
  }
  return std::sqrt(squares / rounds) / mean;
}

// Returns whether `outer`, which lies around `inner`, is a loop of the job: it makes something of
// its own, or comes at even distances and does more than reading values. Neither is true of calls
// that come only now and then.
bool IsLoopAround(std::span<const StepItem> items, const Candidate& outer, const Candidate& inner) {
  absl::flat_hash_map<uint32_t, size_t> counts;
  for (const StepItem& item : items) ++counts[item.symbol];
  bool any = false;
  bool only_looks = true;
  bool makes = false;
  for (size_t i = outer.markers.front(); i < outer.markers.back(); ++i) {
    if (counts[items[i].symbol] * 2 >= inner.markers.size()) continue;
    any = true;
    const ItemClass item_class = items[i].item_class;
    makes |=
        item_class == ItemClass::kSource && counts[items[i].symbol] + 1 >= outer.markers.size();
    only_looks &= item_class == ItemClass::kRead || item_class == ItemClass::kReduce ||
                  item_class == ItemClass::kDetach;
  }
  const double variation = Variation(outer.markers);
  if (any && only_looks) return false;
  return makes ? variation <= kMostVariation : variation <= kEvenVariation;
}

// Returns whether there are calls that come in fewer than every other one of `rounds`, but
// repeatedly, and that do more than reading values.
bool HasRareCalls(std::span<const StepItem> items, size_t rounds) {
  constexpr double kFew = 0.01;  // of all calls: fewer are a branch of the loop itself
  struct Calls {
    size_t count = 0;
    ItemClass item_class = ItemClass::kOther;
  };
  absl::flat_hash_map<uint32_t, Calls> calls;
  for (const StepItem& item : items) {
    ++calls[item.symbol].count;
    calls[item.symbol].item_class = item.item_class;
  }
  size_t rare = 0;
  for (const auto& [symbol, call] : calls) {
    if (call.count < kMinRounds || call.count * 2 > rounds) continue;
    if (call.item_class == ItemClass::kSource) return true;
    const bool is_look = call.item_class == ItemClass::kRead ||
                         call.item_class == ItemClass::kReduce ||
                         call.item_class == ItemClass::kDetach;
    if (!is_look) rare += call.count;
  }
  return static_cast<double>(rare) > kFew * static_cast<double>(items.size());
}

}  // namespace

PeriodicSequence FindPeriodicSequence(std::span<const StepItem> all_items) {
  const size_t count = std::min(all_items.size(), kMaxItems);
  const std::span<const StepItem> items = all_items.subspan((all_items.size() - count) / 2, count);
  PeriodicSequence result;
  if (items.empty()) return result;
  const std::vector<Candidate> candidates = FindCandidates(items);
  const Candidate* chosen = nullptr;
  for (size_t i = 0; i < candidates.size() && chosen == nullptr; ++i) {
    const Candidate& outer = candidates[i];
    const bool is_loop = std::all_of(candidates.begin() + static_cast<ptrdiff_t>(i) + 1,
                                     candidates.end(), [&](const Candidate& inner) {
                                       return inner.markers.size() < 2 * outer.markers.size() ||
                                              inner.regularity < kRegularInner ||
                                              IsLoopAround(items, outer, inner);
                                     });
    if (is_loop) chosen = &outer;
  }
  if (chosen == nullptr) return result;
  // A longer sequence of the same loop may be incomplete at the ends, so a shorter one serves as
  // well.
  constexpr size_t kMissingAtEnds = 3;
  const size_t rounds = chosen->markers.size();
  for (const Candidate& other : candidates) {
    const size_t others = other.markers.size();
    if (others < rounds || others > rounds + kMissingAtEnds) continue;
    if (other.symbols.size() < chosen->symbols.size() &&
        other.regularity > 0.95 * chosen->regularity) {
      chosen = &other;
    }
  }
  result.symbols = chosen->symbols;
  result.regularity = chosen->regularity;
  const size_t first = chosen->markers.front();
  result.may_be_inner =
      HasRareCalls(items.subspan(first, chosen->markers.back() - first), chosen->markers.size());
  return result;
}

}  // namespace proftrace
