#include "userspace/steps/step_rounds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace proftrace {
namespace {

// Returns the bucket of a symbol. Symbols are small numbers, which this spreads over the buckets
// (Fibonacci hashing).
size_t Bucket(uint32_t symbol) { return (symbol * 2654435769u) >> 26; }

float LogCount(uint32_t count) { return std::log2(1.0f + static_cast<float>(count)); }

// Returns the length of the shortest sequence whose repetition makes all of `symbols`.
size_t RepeatedPart(const std::vector<uint32_t>& symbols) {
  // For each prefix, the length of the longest shorter prefix that it ends with (Knuth, Morris and
  // Pratt).
  std::vector<size_t> ends_with(symbols.size(), 0);
  for (size_t i = 1; i < symbols.size(); ++i) {
    size_t length = ends_with[i - 1];
    while (length > 0 && symbols[i] != symbols[length]) length = ends_with[length - 1];
    ends_with[i] = symbols[i] == symbols[length] ? length + 1 : 0;
  }
  if (symbols.empty()) return 0;
  const size_t part = symbols.size() - ends_with.back();
  return symbols.size() % part == 0 ? part : symbols.size();
}

// Tells which choices are actions. An action is chosen from values that the model has just made,
// and is fetched unchanged, while for an accuracy choices are compared. A choice from values for
// which a loss or an update has come is no action either, because the value that is fetched behind
// it is the loss.
class ActionWatch {
 public:
  // Takes the next item of a segment. Returns whether it is a choice that is an action.
  bool IsAction(std::span<const StepItem> items, size_t at) {
    switch (items[at].item_class) {
      case ItemClass::kOther:
        is_made_ = true;
        return false;
      case ItemClass::kLoss:
        is_made_ = false;
        return false;
      case ItemClass::kChoice:
        return is_made_ && IsFetched(items, at);
      default:
        return false;
    }
  }

 private:
  static bool IsFetched(std::span<const StepItem> items, size_t at) {
    const auto is_the_same = [](ItemClass item_class) {
      return item_class == ItemClass::kDetach || item_class == ItemClass::kView;
    };
    size_t next = at + 1;
    while (next < items.size() && is_the_same(items[next].item_class)) ++next;
    return next < items.size() && items[next].item_class == ItemClass::kRead;
  }

  bool is_made_ = false;  // the model has made something since the last loss or update
};

}  // namespace

Signature SignatureOf(std::span<const StepItem> items) {
  std::array<uint32_t, 64> counts{};
  for (const StepItem& item : items) {
    if (item.item_class != ItemClass::kRead) ++counts[Bucket(item.symbol)];
  }
  Signature signature{};
  for (size_t i = 0; i < counts.size(); ++i) signature[i] = LogCount(counts[i]);
  return signature;
}

double Similarity(const Signature& a, const Signature& b) {
  float common = 0;
  float all = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    common += std::min(a[i], b[i]);
    all += std::max(a[i], b[i]);
  }
  return all == 0 ? 1.0 : static_cast<double>(common / all);
}

double MissingPart(const Signature& typical, const Signature& other) {
  float missing = 0;
  float all = 0;
  for (size_t i = 0; i < typical.size(); ++i) {
    missing += std::max(0.0f, typical[i] - other[i]);
    all += typical[i];
  }
  return all == 0 ? 0.0 : static_cast<double>(missing / all);
}

std::vector<Segment> SegmentsBetween(std::span<const StepItem> items,
                                     std::span<const size_t> markers) {
  std::vector<Segment> segments;
  for (size_t i = 1; i < markers.size(); ++i) {
    Segment segment;
    segment.begin = markers[i - 1];
    segment.end = markers[i];
    const std::span<const StepItem> part =
        items.subspan(segment.begin + 1, segment.end - segment.begin);
    segment.signature = SignatureOf(part);
    segment.duration_ns = items[segment.end].end_ns - items[segment.begin].end_ns;
    ActionWatch actions;
    for (size_t at = 0; at < part.size(); ++at) {
      segment.loader_nexts += part[at].item_class == ItemClass::kLoaderNext;
      const bool is_choice = actions.IsAction(part, at);
      segment.choices += is_choice;
      segment.samples += is_choice || part[at].item_class == ItemClass::kSample;
    }
    segments.push_back(segment);
  }
  // Where the data to learn from comes from a DataLoader, choices only measure how good the model
  // is.
  const bool has_batches =
      std::any_of(segments.begin(), segments.end(),
                  [](const Segment& segment) { return segment.loader_nexts > 0; });
  for (Segment& segment : segments) {
    if (has_batches) segment.samples -= std::exchange(segment.choices, 0);
  }
  return segments;
}

bool HaveOneBackwardPass(std::span<const StepItem> items, const std::vector<Segment>& segments) {
  const auto nodes_of = [&items](const Segment& segment) {
    std::vector<uint32_t> nodes;
    for (size_t i = segment.begin + 1; i <= segment.end; ++i) {
      if (IsBackward(items[i].item_class)) nodes.push_back(items[i].symbol);
    }
    // Where gradients of several batches are added up, the same pass comes several times, and fewer
    // times at the end of an epoch without enough batches.
    nodes.resize(RepeatedPart(nodes));
    nodes.push_back(items[segment.end].symbol);  // the optimizer
    return nodes;
  };
  const std::vector<uint32_t> first = nodes_of(segments.front());
  if (first.size() == 1) return false;
  uint32_t most_nexts = 0;
  uint32_t fewest_nexts = UINT32_MAX;
  for (const Segment& segment : segments) {
    most_nexts = std::max(most_nexts, segment.loader_nexts);
    fewest_nexts = std::min(fewest_nexts, segment.loader_nexts);
  }
  if (most_nexts == 1 && fewest_nexts == 0) return false;
  return std::all_of(segments.begin() + 1, segments.end(),
                     [&](const Segment& segment) { return nodes_of(segment) == first; });
}

std::vector<size_t> MarkersOfClass(std::span<const StepItem> items, ItemClass item_class) {
  std::vector<size_t> markers;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].item_class == item_class && !items[i].is_open) markers.push_back(i);
  }
  return markers;
}

namespace {

bool OnlyNextsBetween(std::span<const StepItem> items, size_t first, size_t last) {
  for (size_t i = first; i <= last; ++i) {
    if (items[i].item_class != ItemClass::kLoaderNext) return false;
  }
  return true;
}

// The evidence for whether a call of a DataLoader's iterator returned a batch.
class BatchEvidence {
 public:
  BatchEvidence(std::span<const StepItem> items, const std::vector<size_t>& nexts) : items_(items) {
    for (size_t i = 0; i < nexts.size(); ++i) {
      const size_t until = i + 1 < nexts.size() ? nexts[i + 1] : items.size();
      Usual& usual = usual_[items[nexts[i]].symbol];
      ++usual.count;
      usual.with_calls += items[nexts[i]].has_calls;
      if (nexts[i] + 1 < until) {
        ++usual.followed;
        ++usual.first[items[nexts[i] + 1].symbol];
      }
    }
    for (auto& [symbol, usual] : usual_) {
      for (const auto& [first, count] : usual.first) {
        if (count > usual.most) usual.most_first = first;
        usual.most = std::max(usual.most, count);
      }
    }
    for (size_t i = nexts.size(); i-- > 0;) {
      const size_t until = i + 1 < nexts.size() ? nexts[i + 1] : items.size();
      Usual& usual = usual_[items[nexts[i]].symbol];
      if (nexts[i] + 1 >= until || items[nexts[i] + 1].symbol != usual.most_first) continue;
      usual.signature = SignatureOf(items.subspan(nexts[i] + 1, until - nexts[i] - 1));
    }
  }

  // Returns whether the iterator had no more batches: it put no batch together although other calls
  // do, an iterator is made next, or the items after it are not like those after a batch.
  bool IsExhausted(size_t next, size_t until) const {
    constexpr double kMost = 0.6;
    constexpr double kAlike = 0.5;  // how alike loops are that begin in several ways
    const Usual& usual = usual_.at(items_[next].symbol);
    // In many short epochs, half of all calls are those at their ends.
    if (usual.with_calls * 5 >= usual.count * 2) return !items_[next].has_calls;
    if (next + 1 >= until) return until < items_.size();
    if (MakesIterator(next + 1, until)) return true;
    if (static_cast<double>(usual.most) < kMost * static_cast<double>(usual.followed)) return false;
    if (items_[next + 1].symbol == usual.most_first) return false;
    const Signature own = SignatureOf(items_.subspan(next + 1, until - next - 1));
    return Similarity(own, usual.signature) < kAlike;
  }

 private:
  struct Usual {
    size_t count = 0;
    size_t with_calls = 0;
    size_t followed = 0;
    std::map<uint32_t, size_t> first;  // by symbol: how often it came next
    size_t most = 0;                   // of these
    uint32_t most_first = 0;
    Signature signature{};  // of the items after a call with this continuation
  };

  // Returns whether [begin, end) holds only calls of an iterator's constructor, which draws a seed
  // (torch/utils/data/dataloader.py), and of the sampler, which draws an order.
  bool MakesIterator(size_t begin, size_t end) const {
    bool draws = false;
    for (size_t i = begin; i < end; ++i) {
      const ItemClass item_class = items_[i].item_class;
      if (item_class != ItemClass::kSource && item_class != ItemClass::kRead &&
          item_class != ItemClass::kDraw) {
        return false;
      }
      draws |= item_class == ItemClass::kDraw;
    }
    return draws;
  }

  std::span<const StepItem> items_;
  std::map<uint32_t, Usual> usual_;  // by the symbol of the iterator's class
};

// Returns the calls of DataLoaders' iterators that returned a batch.
std::vector<size_t> NextsOfBatches(std::span<const StepItem> items) {
  std::vector<size_t> nexts;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].item_class == ItemClass::kLoaderNext) nexts.push_back(i);
  }
  const BatchEvidence evidence(items, nexts);
  std::vector<size_t> batches;
  for (size_t i = 0; i < nexts.size(); ++i) {
    const size_t until = i + 1 < nexts.size() ? nexts[i + 1] : items.size();
    if (!evidence.IsExhausted(nexts[i], until)) batches.push_back(nexts[i]);
  }
  return batches;
}

}  // namespace

std::vector<size_t> LoaderMarkers(std::span<const StepItem> items) {
  const std::vector<size_t> nexts = NextsOfBatches(items);
  std::vector<size_t> markers;
  for (const size_t next : nexts) {
    // Where several loaders are used side by side, their batches make one round.
    if (!markers.empty() && OnlyNextsBetween(items, markers.back(), next)) continue;
    markers.push_back(next);
  }
  if (!markers.empty() && markers.back() + 1 == items.size()) markers.pop_back();
  // Where a batch is fetched within an annotation, the round begins with the annotation.
  for (size_t i = markers.size(); i-- > 0;) {
    const auto before = i > 0 ? std::optional<size_t>(markers[i - 1]) : std::nullopt;
    const auto after =
        i + 1 < markers.size() ? std::optional<size_t>(markers[i + 1]) : std::nullopt;
    markers[i] = EnclosureOf(items, markers[i], before, after, INT64_MIN).begin;
  }
  return markers;
}

std::vector<size_t> UpdateMarkers(std::span<const StepItem> items) {
  // The most items between the backward pass and the update, such as clipping or unscaling.
  constexpr size_t kMaxItemsBetween = 8;
  std::vector<size_t> markers;
  size_t i = 0;
  while (i < items.size()) {
    if (!IsBackward(items[i].item_class)) {
      ++i;
      continue;
    }
    size_t first = i + 1;
    while (first < items.size() && first - i <= kMaxItemsBetween &&
           items[first].item_class != ItemClass::kUpdate && !IsBackward(items[first].item_class)) {
      ++first;
    }
    if (first >= items.size() || items[first].item_class != ItemClass::kUpdate) {
      i = std::max(i + 1, first);
      continue;
    }
    // `p -= lr * p.grad` has one more operator before each update.
    size_t last = first;
    for (size_t next = first + 1; next < items.size() && next - last <= 2; ++next) {
      if (items[next].item_class == ItemClass::kUpdate) last = next;
      if (IsBackward(items[next].item_class)) break;
    }
    markers.push_back(last);
    i = last + 1;
  }
  return markers;
}

std::vector<size_t> SequenceMarkers(std::span<const StepItem> items,
                                    std::span<const uint32_t> sequence) {
  std::vector<size_t> markers;
  for (size_t i = 0; i + sequence.size() <= items.size(); ++i) {
    const bool matches =
        std::equal(sequence.begin(), sequence.end(), items.begin() + static_cast<ptrdiff_t>(i),
                   [](uint32_t symbol, const StepItem& item) { return symbol == item.symbol; });
    if (matches) markers.push_back(i);
  }
  return markers;
}

Enclosure EnclosureOf(std::span<const StepItem> items, size_t marker, std::optional<size_t> before,
                      std::optional<size_t> after, int64_t earliest_ns) {
  Enclosure enclosure{marker, marker + 1};
  const int64_t marker_ns = items[marker].start_ns;
  const int64_t next_ns = after.has_value() ? items[*after].start_ns : INT64_MAX;
  const size_t first = before.has_value() ? *before + 1 : 0;
  int64_t until_ns = marker_ns;
  for (size_t at = marker; at-- > first && items[at].start_ns >= earliest_ns;) {
    const StepItem& item = items[at];
    if (item.item_class != ItemClass::kAnnotation || item.is_open) continue;
    if (item.end_ns <= marker_ns || item.end_ns > next_ns) continue;
    enclosure.begin = at;
    until_ns = std::max(until_ns, item.end_ns);
  }
  while (enclosure.end < items.size() && items[enclosure.end].start_ns < until_ns) ++enclosure.end;
  return enclosure;
}

size_t BehindAnnotations(std::span<const StepItem> items, size_t marker, std::optional<size_t> next,
                         int64_t round_ns) {
  const int64_t earliest_ns = items[marker].start_ns - round_ns - round_ns / 2;
  return EnclosureOf(items, marker, std::nullopt, next, earliest_ns).end;
}

int64_t ReorderingMedian(std::vector<int64_t>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace proftrace
