#include "userspace/steps/step_period.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

namespace proftrace {
namespace {

constexpr size_t kMaxPeriod = 256;  // optimizer steps in one round
constexpr double kPeriodAlike = 0.9;
constexpr double kMissingOfAnotherKind = 0.05;
constexpr float kLeastFactor = 2.5f;   // a loop that is so much longer need not be long
constexpr double kRolloutShare = 0.2;  // of the time: less is only a draw on the side

// Returns some of the segments, spread over all of them at uneven distances. Taking every n-th
// segment would give segments of one kind alone where every n-th is of another kind.
std::vector<const Segment*> Sample(const std::vector<const Segment*>& segments) {
  constexpr size_t kSample = 48;
  constexpr double kGoldenRatio = 0.6180339887498949;
  if (segments.size() <= kSample) return segments;
  std::vector<const Segment*> sample;
  for (size_t i = 0; i < kSample; ++i) {
    const double turns = static_cast<double>(i) * kGoldenRatio;
    const double place = (turns - std::floor(turns)) * static_cast<double>(segments.size());
    sample.push_back(segments[static_cast<size_t>(place)]);
  }
  return sample;
}

// The average likeness of segments that are `period` apart, and the part of them that are more
// alike than neighbours.
struct Likeness {
  double average = 0;
  double improved = 0;
};

Likeness LikenessAt(const std::vector<Segment>& segments, size_t period,
                    const std::vector<double>& to_neighbour) {
  Likeness likeness;
  const size_t count = segments.size() - period;
  for (size_t i = period; i < segments.size(); ++i) {
    const double alike = Similarity(segments[i].signature, segments[i - period].signature);
    likeness.average += alike;
    if (alike > to_neighbour[i] + 0.01) likeness.improved += 1;
  }
  likeness.average /= static_cast<double>(count);
  likeness.improved /= static_cast<double>(count);
  return likeness;
}

// Returns whether the segments that are unlike the typical one are another kind of work, and enough
// of them, instead of the typical segment with something added.
bool OddOnesAreOfAnotherKind(const std::vector<Segment>& segments, const Signature& typical) {
  size_t odd = 0;
  size_t of_another_kind = 0;
  for (const Segment& segment : segments) {
    if (Similarity(segment.signature, typical) >= 0.98) continue;
    ++odd;
    of_another_kind += MissingPart(typical, segment.signature) >= kMissingOfAnotherKind;
  }
  return odd >= 3 && of_another_kind * 10 >= odd * 9;
}

// How many calls of a segment are autograd's nodes, how many of these add to a parameter's
// gradient, and how many are others.
struct Passes {
  double backward = 0;
  double gradients = 0;
  double others = 0;
};

Passes PassesOf(std::span<const StepItem> items, const Segment& segment) {
  Passes passes;
  for (size_t i = segment.begin + 1; i <= segment.end; ++i) {
    (IsBackward(items[i].item_class) ? passes.backward : passes.others) += 1;
    passes.gradients += items[i].item_class == ItemClass::kAccumulate;
  }
  return passes;
}

// Returns whether the segments can be passes of one model. Operators that have the loop in
// themselves (aten::gru) have more of autograd's nodes for a longer sequence, but not of gradients.
// `factor`: how much more often the calls in loops come.
bool MayBeOfOneModel(const Passes& few, const Passes& many, float factor) {
  if (few.backward == 0) return true;
  const double backward = many.backward / few.backward - 1;
  const double others = many.others / std::max(few.others, 1.0) - 1;
  if (others >= backward / 3 && backward >= others / 3) return true;
  return factor >= kLeastFactor && few.gradients > 0 && few.gradients == many.gradients;
}

// Returns whether `longer` has about the same calls as `shorter`, of which those in a loop come
// more often, all of them by about the same factor. Two networks that take turns differ in another
// way: a short list of calls comes twice, or only autograd's nodes do.
bool HasOnlyLongerLoops(std::span<const StepItem> items, const Segment& shorter,
                        const Segment& longer) {
  constexpr float kSameCount = 0.02f;
  constexpr float kLeastRounds = 8;      // of the shorter loop, where the factor is less
  constexpr float kLeastInLoops = 0.8f;  // of the calls that the longer segment has more
  const auto count_of = [](float log_count) { return std::exp2(log_count) - 1; };
  float most = 1;
  for (size_t i = 0; i < shorter.signature.size(); ++i) {
    const float few = count_of(shorter.signature[i]);
    const float many = count_of(longer.signature[i]);
    if ((few < 0.5f) != (many < 0.5f) || many < few * (1 - kSameCount) - 0.5f) return false;
    if (few >= 0.5f) most = std::max(most, many / few);
  }
  float added = 0;
  float in_loops = 0;
  float fewest = kLeastRounds;
  for (size_t i = 0; i < shorter.signature.size(); ++i) {
    const float few = count_of(shorter.signature[i]);
    const float more = count_of(longer.signature[i]) - few;
    added += more;
    if (more < (most - 1) / 2 * few || more < 0.5f) continue;
    in_loops += more;
    fewest = std::min(fewest, few);
  }
  if (in_loops < kLeastInLoops * added) return false;
  if (most < kLeastFactor && fewest < kLeastRounds) return false;
  return MayBeOfOneModel(PassesOf(items, shorter), PassesOf(items, longer), most);
}

// Returns whether nearly all segments are the work of `one` in loops of other lengths.
bool DifferInLoopsAlone(std::span<const StepItem> items, const std::vector<Segment>& segments,
                        const Segment& one) {
  size_t others = 0;
  for (const Segment& segment : segments) {
    if (Similarity(segment.signature, one.signature) >= 0.98) continue;
    others += !HasOnlyLongerLoops(items, one, segment) && !HasOnlyLongerLoops(items, segment, one);
  }
  return others * 10 < segments.size();
}

// Returns whether the segments are the same work on sequences of different lengths: then each is a
// round. The shortest tells lengths apart best, but may be an odd one.
bool AreSequences(std::span<const StepItem> items, const std::vector<Segment>& segments) {
  const auto shortest = std::min_element(
      segments.begin(), segments.end(),
      [](const Segment& a, const Segment& b) { return a.end - a.begin < b.end - b.begin; });
  return DifferInLoopsAlone(items, segments, *shortest) ||
         DifferInLoopsAlone(items, segments, *Typical(Pointers(segments)));
}

// Returns how many segments make a round, by their likeness.
size_t FindPeriod(std::span<const StepItem> items, const std::vector<Segment>& segments) {
  if (segments.size() < 4 || HaveOneBackwardPass(items, segments)) return 1;
  std::vector<double> to_neighbour(segments.size(), 0);
  double average = 0;
  for (size_t i = 1; i < segments.size(); ++i) {
    to_neighbour[i] = Similarity(segments[i].signature, segments[i - 1].signature);
    average += to_neighbour[i];
  }
  average /= static_cast<double>(segments.size() - 1);
  if (average > 0.999 || AreSequences(items, segments)) return 1;
  const bool another_kind =
      OddOnesAreOfAnotherKind(segments, Typical(Pointers(segments))->signature);
  for (size_t period = 2; period <= std::min(segments.size() / 2, kMaxPeriod); ++period) {
    const Likeness likeness = LikenessAt(segments, period, to_neighbour);
    if (likeness.average < kPeriodAlike) continue;
    if (likeness.average < average + 0.5 * (1 - average)) continue;
    if (likeness.improved >= 0.45 || another_kind) return period;
  }
  return 1;
}

// Returns how many segments sample, where the others do not and sampling takes a good part of the
// time; else 0.
size_t SamplingSegments(const std::vector<Segment>& segments) {
  std::vector<int64_t> plain_ns;
  int64_t all_ns = 0;
  int64_t sampling_ns = 0;
  int64_t sampling = 0;
  for (const Segment& segment : segments) {
    all_ns += segment.duration_ns;
    if (segment.samples == 0) {
      plain_ns.push_back(segment.duration_ns);
    } else {
      sampling_ns += segment.duration_ns;
      ++sampling;
    }
  }
  if (sampling == 0 || static_cast<size_t>(sampling) > segments.size() / 2) return 0;
  const int64_t excess_ns = sampling_ns - sampling * ReorderingMedian(plain_ns);
  const bool is_long =
      static_cast<double>(excess_ns) >= kRolloutShare * static_cast<double>(all_ns);
  return is_long ? static_cast<size_t>(sampling) : 0;
}

// Returns how many updates are made from each batch, where this number is always the same; else 1.
size_t UpdatesABatch(const std::vector<Segment>& segments) {
  std::vector<size_t> distances;
  size_t last = segments.size();
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].loader_nexts == 0) continue;
    if (segments[i].loader_nexts > 1) return 1;  // perhaps those of an evaluation
    if (last != segments.size()) distances.push_back(i - last);
    last = i;
  }
  if (distances.size() < 2) return 1;
  const bool are_even =
      std::all_of(distances.begin(), distances.end(),
                  [&distances](size_t distance) { return distance == distances.front(); });
  return are_even && distances.front() <= kMaxPeriod ? distances.front() : 1;
}

// How many segments fetch batches of a DataLoader, and how many of these fetch only one.
struct Fetches {
  size_t any = 0;
  size_t one = 0;
};

Fetches CountFetches(const std::vector<Segment>& segments) {
  Fetches fetches;
  for (const Segment& segment : segments) {
    fetches.any += segment.loader_nexts > 0;
    fetches.one += segment.loader_nexts == 1;
  }
  return fetches;
}

// Returns whether a round has several batches, each with a segment of its own. This is true of a
// loop over batches that does something else with every n-th one, and of a loop whose body takes n
// batches.
bool HasBatchesInARound(const std::vector<Segment>& segments, size_t period) {
  const Fetches fetches = CountFetches(segments);
  if (fetches.any < 2 || fetches.one * 10 < fetches.any * 6) return false;
  return fetches.any * period * 2 > segments.size() * 3;
}

// Returns whether some updates have no batch of their own, but lie between updates that have one.
bool HasUpdatesBetweenBatches(const std::vector<Segment>& segments) {
  const Fetches fetches = CountFetches(segments);
  return fetches.any > 0 && fetches.any < segments.size() && fetches.one * 10 >= fetches.any * 9;
}

// Returns whether several optimizers step in turns. An optimizer that replaces another one for good
// makes no round with it.
bool HasSeveralOptimizers(std::span<const StepItem> items, const std::vector<Segment>& segments) {
  size_t changes = 0;
  for (size_t i = 1; i < segments.size(); ++i) {
    changes += items[segments[i].end].symbol != items[segments[i - 1].end].symbol;
  }
  return changes * 8 > segments.size();
}

// Returns whether gradients are zeroed more often in some segments than in most: then these
// segments also contain a pass of the loop that threw its gradients away.
bool HasSkippedUpdates(std::span<const StepItem> items, const std::vector<Segment>& segments) {
  std::map<size_t, size_t> counts;  // numbers of segments, by how often they zero gradients
  for (const Segment& segment : segments) {
    size_t zeroed = 0;
    for (size_t i = segment.begin + 1; i <= segment.end; ++i) {
      zeroed += items[i].item_class == ItemClass::kZeroGrad;
    }
    ++counts[zeroed];
  }
  size_t usual = 0;
  for (const auto& [zeroed, count] : counts) {
    if (count > counts[usual]) usual = zeroed;
  }
  return usual > 0 && counts.rbegin()->first > usual;
}

}  // namespace

std::vector<const Segment*> Pointers(const std::vector<Segment>& segments) {
  std::vector<const Segment*> pointers;
  for (const Segment& segment : segments) pointers.push_back(&segment);
  return pointers;
}

const Segment* Typical(const std::vector<const Segment*>& segments) {
  const Segment* best = nullptr;
  double best_sum = -1;
  const std::vector<const Segment*> sample = Sample(segments);
  for (const Segment* one : sample) {
    double sum = 0;
    for (const Segment* other : sample) sum += Similarity(one->signature, other->signature);
    if (sum > best_sum) {
      best_sum = sum;
      best = one;
    }
  }
  return best;
}

Rounds FindRounds(std::span<const StepItem> items, const std::vector<Segment>& segments) {
  Rounds rounds;
  rounds.period = FindPeriod(items, segments);
  const size_t batches = rounds.period == 1 ? UpdatesABatch(segments) : 1;
  if (batches > 1) rounds.period = batches;
  if (rounds.period > 1 && HasBatchesInARound(segments, rounds.period)) {
    rounds.doubt = "each batch may be a step";
  } else if (rounds.period == 1 && HasSeveralOptimizers(items, segments)) {
    rounds.doubt = "several optimizers may make a step";
  } else if (rounds.period == 1 && HasUpdatesBetweenBatches(segments)) {
    rounds.doubt = "each batch may be a step";
  } else if (rounds.period == 1 && SamplingSegments(segments) == 1) {
    rounds.doubt = "each rollout may be a step";
  } else if (rounds.period == 1 && HasSkippedUpdates(items, segments)) {
    rounds.doubt = "one step may be several iterations, not all of which updated the model";
  }
  return rounds;
}

bool HasRollouts(const std::vector<Segment>& segments) { return SamplingSegments(segments) >= 2; }

}  // namespace proftrace
