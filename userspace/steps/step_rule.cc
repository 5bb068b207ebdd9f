#include "userspace/steps/step_rule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "userspace/steps/periodicity.h"
#include "userspace/steps/step_period.h"

namespace proftrace {
namespace {

constexpr size_t kMaxSegments = 2048;  // the most segments that are compared with each other
constexpr double kAlike = 0.85;        // segments of the same kind
constexpr size_t kHeadItems = 24;      // after a marker: where a round may begin
constexpr size_t kOpeningItems = 4;
// Gradients that are zeroed between an optimizer's step and the next forward pass belong to the end
// of a round if the pause after them is about as long as the one before, and to the start of the
// next round if the pause after them is shorter. On 2.11, with probes, the pause after them is 0.5
// to 0.76 of that before them at the start of a round, and 1.1 at its end, because Python takes
// that long to call a module.
constexpr double kEndsRound = 1.03;
constexpr double kTrustInPauses = 0.85;
constexpr double kTrustInLead = 0.5;

// Returns the items of a segment: [0] is the one after its marker `begin`, the last one is its
// marker `end`.
std::span<const StepItem> PartOf(std::span<const StepItem> items, const Segment& segment) {
  return items.subspan(segment.begin + 1, segment.end - segment.begin);
}

// Returns a segment with the usual number of items, among those that look like `typical`.
const Segment* UsualOne(const std::vector<const Segment*>& segments, const Signature& typical) {
  std::map<size_t, std::pair<size_t, const Segment*>> by_length;
  for (const Segment* segment : segments) {
    if (Similarity(segment->signature, typical) < kAlike) continue;
    auto& [count, first] = by_length[segment->end - segment->begin];
    if (count++ == 0) first = segment;
  }
  size_t most = 0;
  const Segment* usual = nullptr;
  for (const auto& [length, entry] : by_length) {
    if (entry.first <= most) continue;
    most = entry.first;
    usual = entry.second;
  }
  return usual;
}

// Returns the median of the time before each item of `reference`, over the segments that begin like
// it.
std::vector<int64_t> GapsBefore(std::span<const StepItem> items,
                                const std::vector<const Segment*>& segments,
                                const Segment& reference, size_t count) {
  const std::span<const StepItem> usual = PartOf(items, reference);
  std::vector<std::vector<int64_t>> gaps(count);
  for (const Segment* segment : segments) {
    const std::span<const StepItem> part = PartOf(items, *segment);
    int64_t busy_until_ns = items[segment->begin].busy_until_ns();
    for (size_t i = 0; i < std::min(count, part.size()) && part[i].symbol == usual[i].symbol; ++i) {
      gaps[i].push_back(part[i].start_ns - busy_until_ns);
      busy_until_ns = std::max(busy_until_ns, part[i].busy_until_ns());
    }
  }
  std::vector<int64_t> medians;
  for (std::vector<int64_t>& values : gaps) medians.push_back(ReorderingMedian(values));
  return medians;
}

size_t FirstOfClass(std::span<const StepItem> part, ItemClass item_class) {
  const auto it = std::find_if(part.begin(), part.end(), [item_class](const StepItem& item) {
    return item.item_class == item_class;
  });
  return static_cast<size_t>(it - part.begin());
}

// Returns where segments in which values are read as well begin to differ from the usual one;
// nullopt: they disagree. The items that are added there lie at the end of a round or between two.
std::optional<size_t> WhereOthersPart(std::span<const StepItem> items,
                                      const std::vector<const Segment*>& segments,
                                      const Segment& reference) {
  const std::span<const StepItem> usual = PartOf(items, reference);
  std::map<size_t, size_t> positions;
  size_t others = 0;
  for (const Segment* segment : segments) {
    const std::span<const StepItem> part = PartOf(items, *segment);
    if (part.size() <= usual.size()) continue;
    if (MissingPart(reference.signature, segment->signature) > 0.02) continue;
    size_t same = 0;
    while (same < usual.size() && part[same].symbol == usual[same].symbol) ++same;
    const std::span<const StepItem> added = part.subspan(same, part.size() - usual.size());
    // A branch of the job also adds items, but rarely reads a value.
    if (FirstOfClass(added, ItemClass::kRead) == added.size()) continue;
    ++positions[same];
    ++others;
  }
  for (const auto& [position, count] : positions) {
    if (count >= 2 && count * 10 >= others * 6) return position;
  }
  return std::nullopt;
}

// Returns a time that is much longer than any pause within rounds, by the longest pause of a usual
// segment.
int64_t LongestPause(std::span<const StepItem> items, const std::vector<Segment>& segments) {
  constexpr int64_t kMore = 4;
  constexpr int64_t kMoreThanEver = 2;  // on a busy machine any pause may once be long
  std::vector<int64_t> longest;
  for (const Segment& segment : segments) {
    int64_t longest_ns = 0;
    int64_t busy_until_ns = items[segment.begin].busy_until_ns();
    for (const StepItem& item : PartOf(items, segment)) {
      longest_ns = std::max(longest_ns, item.start_ns - busy_until_ns);
      busy_until_ns = std::max(busy_until_ns, item.busy_until_ns());
    }
    longest.push_back(longest_ns);
  }
  if (longest.empty()) return 0;
  const int64_t ever_ns = *std::max_element(longest.begin(), longest.end());
  return std::max(kMore * ReorderingMedian(longest), kMoreThanEver * ever_ns);
}

// The items after a round's last marker that still belong to the round.
struct Tail {
  size_t items = 0;
  // True: only the length of pauses tells which of some items belong to which round.
  bool is_guess = false;
};

// Returns how many items after a round's last marker are usually in an annotation with the marker.
size_t EnclosedItems(std::span<const StepItem> items, const std::vector<const Segment*>& leads,
                     int64_t round_ns) {
  std::vector<int64_t> counts;
  for (const Segment* lead : leads) {
    const size_t behind = BehindAnnotations(items, lead->begin, lead->end, round_ns);
    counts.push_back(static_cast<int64_t>(behind - lead->begin - 1));
  }
  return static_cast<size_t>(ReorderingMedian(counts));
}

// Returns the first of the reads that come repeatedly before the backward pass, after the same
// calls each time. These are reads of a round that acts and fetches its actions (rollouts,
// generation), not of the end of a round. Returns usual.size() where there are none.
size_t FirstOfRepeatedReads(std::span<const StepItem> usual, size_t backward) {
  constexpr size_t kSameBefore = 2;  // calls
  constexpr size_t kOften = 3;
  const size_t end = std::min(backward, usual.size());
  std::vector<size_t> reads;
  for (size_t i = kSameBefore; i < end; ++i) {
    if (usual[i].item_class == ItemClass::kRead) reads.push_back(i);
  }
  if (reads.size() < kOften) return usual.size();
  const size_t last = reads.back();
  size_t first = usual.size();
  size_t often = 0;
  for (const size_t read : reads) {
    bool is_same = true;
    for (size_t back = 0; back <= kSameBefore; ++back) {
      is_same &= usual[read - back].symbol == usual[last - back].symbol;
    }
    if (!is_same) continue;
    first = std::min(first, read);
    ++often;
  }
  return often >= kOften ? first - kSameBefore : usual.size();
}

// Finds the tail of rounds. `leads`: the first segments of rounds; `reference`: a usual one of
// these; `first_item`: an item that certainly begins a round.
Tail FindTail(std::span<const StepItem> items, const std::vector<const Segment*>& leads,
              const Segment& reference, const StepItem* first_item, int64_t round_ns) {
  const std::span<const StepItem> usual = PartOf(items, reference);
  const size_t backward = FirstOfClass(usual, ItemClass::kBackward);
  const size_t loader = FirstOfClass(usual, ItemClass::kLoaderNext);
  const bool fetches = loader * 2 <= std::min(backward, usual.size());
  const size_t head = std::min({kHeadItems, backward, usual.size() - 1});
  // Values are read at the end of a round.
  size_t first = 0;
  const size_t looks = fetches ? loader : std::min(head, FirstOfRepeatedReads(usual, backward));
  for (size_t i = 0; i < looks; ++i) {
    const ItemClass item_class = usual[i].item_class;
    // A round begins with its data; only zeroed gradients may come before that.
    if (item_class == ItemClass::kRead || (fetches && item_class != ItemClass::kZeroGrad)) {
      first = i + 1;
    }
  }
  first = std::max(first, std::min(EnclosedItems(items, leads, round_ns), usual.size() - 1));
  size_t last = first;
  while (last < head) {
    const ItemClass item_class = usual[last].item_class;
    if (item_class != ItemClass::kZeroGrad && item_class != ItemClass::kUpdate &&
        item_class != ItemClass::kDetach) {
      break;
    }
    ++last;
  }
  for (size_t i = first; first_item != nullptr && i <= last; ++i) {
    if (usual[i].symbol == first_item->symbol) return {i};
  }
  const std::optional<size_t> parting = WhereOthersPart(items, leads, reference);
  if (parting.has_value() && *parting >= first && *parting <= last) return {*parting};
  const std::vector<int64_t> gaps = GapsBefore(items, leads, reference, last + 1);
  size_t best = first;
  for (size_t i = first + 1; i <= last; ++i) {
    const double first_ns = static_cast<double>(gaps[first]);
    if (static_cast<double>(gaps[i]) < kEndsRound * first_ns) continue;
    if (best == first || gaps[i] > gaps[best]) best = i;
  }
  return {best, first < last};
}

struct Lead {
  size_t segment = 0;
  bool is_guess = false;  // another segment may as well be the first one
};

// Returns which segment of a round is its first one: the one that fetches data, or that follows the
// longest pause.
Lead FindLead(std::span<const StepItem> items, const std::vector<Segment>& segments,
              size_t period) {
  constexpr double kClearly = 1.25;  // longer than another pause
  size_t best = 0;
  double best_score = -1;
  double second_score = -1;
  for (size_t phase = 0; phase < period; ++phase) {
    std::vector<const Segment*> own;
    for (size_t i = phase; i < segments.size(); i += period) own.push_back(&segments[i]);
    const Segment* reference = UsualOne(own, Typical(own)->signature);
    if (reference == nullptr) continue;
    const std::span<const StepItem> usual = PartOf(items, *reference);
    const size_t loader = FirstOfClass(usual, ItemClass::kLoaderNext);
    const size_t source = FirstOfClass(usual, ItemClass::kSource);
    const size_t head = std::min(kHeadItems, usual.size() - 1);
    const std::vector<int64_t> gaps = GapsBefore(items, own, *reference, head + 1);
    double score = 1e-9 * static_cast<double>(*std::max_element(gaps.begin(), gaps.end()));
    if (loader < usual.size()) score += 1e6;
    if (source < head) score *= 4;
    // No round begins where a second optimizer steps without a backward pass of its own.
    if (FirstOfClass(usual, ItemClass::kBackward) == usual.size()) score *= 1e-6;
    second_score = std::max(second_score, std::min(score, best_score));
    if (score > best_score) {
      best_score = score;
      best = phase;
    }
  }
  return {best, best_score < kClearly * second_score};
}

// Fills in the rule's facts about rounds, by their first segments.
void DescribeRound(std::span<const StepItem> items, const std::vector<const Segment*>& leads,
                   int64_t start_ns, StepRule* rule) {
  const Segment* reference = UsualOne(leads, rule->slots.front());
  if (reference == nullptr) reference = leads.front();
  const std::span<const StepItem> usual = PartOf(items, *reference);
  const bool begins_with_round = rule->begins_with_round(items.front().start_ns, start_ns);
  const StepItem* first_item = begins_with_round ? &items.front() : nullptr;
  const Tail tail = FindTail(items, leads, *reference, first_item, rule->round_ns);
  rule->tail_items = static_cast<uint32_t>(tail.items);
  rule->has_guessed_end = tail.is_guess;
  rule->lead_items = static_cast<uint32_t>(usual.size() - 1 - tail.items);
  constexpr double kNear = 0.1;  // of the usual number
  const auto as_usual = std::count_if(leads.begin(), leads.end(), [&](const Segment* lead) {
    const double items_more =
        static_cast<double>(lead->end - lead->begin) - static_cast<double>(usual.size());
    return std::abs(items_more) <= kNear * static_cast<double>(usual.size());
  });
  rule->has_uneven_leads = static_cast<size_t>(as_usual) * 2 < leads.size();
  for (size_t i = tail.items; i < std::min(usual.size(), tail.items + kOpeningItems); ++i) {
    rule->opening.push_back(usual[i].symbol);
  }
}

double EvidenceOf(size_t rounds) { return rounds >= 3 ? 1.0 : rounds == 2 ? 0.75 : 0.45; }

// The confidence of only two rounds of several optimizer steps, which may be chance and are a
// guess.
constexpr double kTwoLongRounds = 0.5;

std::string Count(size_t count, const char* what) { return std::to_string(count) + " " + what; }

// Learns a rule from markers at the ends of segments: optimizer steps.
void LearnFromEnds(std::span<const StepItem> items, std::vector<size_t> markers, int64_t start_ns,
                   StepRule* rule) {
  if (markers.size() > kMaxSegments) markers.resize(kMaxSegments);
  const std::vector<Segment> segments = SegmentsBetween(items, markers);
  if (segments.empty()) {
    rule->kind = StepRule::Kind::kNone;
    return;
  }
  rule->pause_ns = LongestPause(items, segments);
  std::vector<const Segment*> leads;
  std::vector<int64_t> rounds_ns;
  if (HasRollouts(segments)) {
    rule->begins_sampling = true;
    // A generation whose values are read now and then looks the same.
    const bool only_chooses =
        std::all_of(segments.begin(), segments.end(),
                    [](const Segment& segment) { return segment.samples == segment.choices; });
    if (only_chooses) rule->doubt = "each update may be a step";
    std::vector<int64_t> sizes;
    size_t last = 0;
    for (size_t i = 0; i < segments.size(); ++i) {
      if (segments[i].samples == 0) continue;
      if (!leads.empty()) {
        sizes.push_back(static_cast<int64_t>(i - last));
        rounds_ns.push_back(items[segments[i].begin].end_ns - items[segments[last].begin].end_ns);
      }
      last = i;
      leads.push_back(&segments[i]);
    }
    rule->period = static_cast<uint32_t>(ReorderingMedian(sizes));
    rule->slots.push_back(Typical(leads)->signature);
  } else {
    const Rounds rounds = FindRounds(items, segments);
    const size_t period = rounds.period;
    rule->doubt = rounds.doubt;
    size_t lead = 0;
    if (period > 1 && rule->begins_with_round(items.front().start_ns, start_ns)) {
      lead = period - 1;  // after the rest of the first round
    } else if (period > 1) {
      const Lead found = FindLead(items, segments, period);
      lead = found.segment;
      rule->has_guessed_lead = found.is_guess;
    }
    rule->period = static_cast<uint32_t>(period);
    for (size_t slot = 0; slot < period; ++slot) {
      std::vector<const Segment*> own;
      for (size_t i = (lead + slot) % period; i < segments.size(); i += period) {
        own.push_back(&segments[i]);
      }
      if (slot == 0) leads = own;
      rule->slots.push_back(Typical(own)->signature);
    }
    for (size_t i = period; i < segments.size(); i += period) {
      rounds_ns.push_back(items[segments[i].begin].end_ns -
                          items[segments[i - period].begin].end_ns);
    }
  }
  rule->round_ns = rounds_ns.empty() ? segments.front().duration_ns : ReorderingMedian(rounds_ns);
  DescribeRound(items, leads, start_ns, rule);
  size_t alike = 0;
  for (const Segment* segment : leads) {
    alike += Similarity(segment->signature, rule->slots.front()) >= 0.7;
  }
  const double regular = static_cast<double>(alike) / static_cast<double>(leads.size());
  const double trust = rule->begins_sampling ? 0.8 : rule->period > 1 ? 0.93 : 0.98;
  rule->confidence = trust * (0.65 + 0.35 * regular) * EvidenceOf(leads.size());
  if (rule->period > 1 && leads.size() == 2) rule->confidence *= kTwoLongRounds;
  if (rule->has_guessed_end) rule->confidence *= kTrustInPauses;
  if (rule->has_guessed_lead || !rule->doubt.empty()) rule->confidence *= kTrustInLead;
}

// Learns a rule from markers that begin a round: batches, or sequences that repeat.
void LearnFromBegins(std::span<const StepItem> items, const std::vector<size_t>& markers,
                     StepRule* rule) {
  std::vector<size_t> some = markers;
  if (some.size() > kMaxSegments) some.resize(kMaxSegments);
  const std::vector<Segment> segments = SegmentsBetween(items, some);
  if (segments.empty()) {
    rule->kind = StepRule::Kind::kNone;
    return;
  }
  const std::vector<const Segment*> all = Pointers(segments);
  const Segment* reference = UsualOne(all, Typical(all)->signature);
  if (reference == nullptr) reference = all.front();
  std::vector<int64_t> rounds_ns;
  std::vector<int64_t> sizes;
  size_t alike = 0;
  for (const Segment& segment : segments) {
    rounds_ns.push_back(items[segment.end].start_ns - items[segment.begin].start_ns);
    sizes.push_back(static_cast<int64_t>(segment.end - segment.begin));
    alike += Similarity(segment.signature, reference->signature) >= 0.7;
  }
  rule->slots.push_back(reference->signature);
  rule->round_items = static_cast<uint32_t>(reference->end - reference->begin);
  rule->round_ns = ReorderingMedian(rounds_ns);
  rule->pause_ns = LongestPause(items, segments);
  const double regular = static_cast<double>(alike) / static_cast<double>(segments.size());
  rule->confidence *= (0.5 + 0.5 * regular) * EvidenceOf(segments.size());
}

// Finds where in a round of a periodic sequence the loop begins: before data is made, or else after
// the longest pause.
void FindPeriodicCut(std::span<const StepItem> items, const std::vector<size_t>& markers,
                     StepRule* rule) {
  const std::vector<Segment> segments = SegmentsBetween(items, markers);
  const std::vector<const Segment*> all = Pointers(segments);
  const Segment* reference = UsualOne(all, rule->slots.front());
  if (reference == nullptr) return;
  // The items begin with the marker. The gap before the marker itself is that before the segment's
  // end.
  const std::span<const StepItem> usual = PartOf(items, *reference);
  const std::vector<int64_t> gaps = GapsBefore(items, all, *reference, usual.size());
  const auto comes_once = [&usual](uint32_t symbol) {
    return std::count_if(usual.begin(), usual.end(),
                         [symbol](const StepItem& item) { return item.symbol == symbol; }) == 1;
  };
  constexpr double kFarLonger = 1e6;
  size_t best = 0;
  double best_score = -1;
  for (size_t i = 0; i < usual.size(); ++i) {
    double score = static_cast<double>(gaps[i] + 1);
    const ItemClass before = i == 0 ? items[reference->begin].item_class : usual[i - 1].item_class;
    const ItemClass item_class = usual[i].item_class;
    if (item_class == ItemClass::kSource && comes_once(usual[i].symbol)) score *= kFarLonger;
    if (item_class == ItemClass::kAnnotation) score *= 2;
    if (item_class == ItemClass::kRead || item_class == ItemClass::kReduce) score /= 4;
    if (before == ItemClass::kRead || before == ItemClass::kSample) score *= 2;
    if (score > best_score) {
      best_score = score;
      best = i;
    }
  }
  rule->tail_items = static_cast<uint32_t>((best + 1) % usual.size());
}

bool LearnPeriodic(std::span<const StepItem> items, StepRule* rule) {
  const PeriodicSequence sequence = FindPeriodicSequence(items);
  if (sequence.symbols.empty()) return false;
  rule->kind = StepRule::Kind::kPeriodic;
  rule->sequence = sequence.symbols;
  rule->how = "a sequence of operators that comes back";
  rule->confidence = 0.85 * sequence.regularity * (sequence.may_be_inner ? kTrustInLead : 1);
  if (sequence.may_be_inner) rule->how += "; a loop may lie around it";
  std::vector<size_t> markers = SequenceMarkers(items, rule->sequence);
  LearnFromBegins(items, markers, rule);
  if (rule->kind == StepRule::Kind::kNone) return false;
  if (markers.size() > kMaxSegments) markers.resize(kMaxSegments);
  FindPeriodicCut(items, markers, rule);
  return true;
}

}  // namespace

StepRule LearnStepRule(std::span<const StepItem> items, int64_t start_ns) {
  StepRule rule;
  if (items.empty()) return rule;
  if (FirstOfClass(items, ItemClass::kProfilerStep) < items.size()) {
    rule.kind = StepRule::Kind::kProfilerStep;
    rule.how = "ProfilerStep annotations of the job's own profiler";
    rule.confidence = 1;
    return rule;
  }
  std::vector<size_t> markers = MarkersOfClass(items, ItemClass::kOptimizerStep);
  rule.kind = StepRule::Kind::kOptimizer;
  rule.how = "optimizer steps";
  if (markers.size() < 2) {
    markers = UpdateMarkers(items);
    rule.kind = StepRule::Kind::kUpdate;
    rule.how = "parameter updates after backward passes";
  }
  if (markers.size() >= 2) {
    LearnFromEnds(items, markers, start_ns, &rule);
    if (rule.begins_sampling) {
      rule.how += ", about " + Count(rule.period, "for each rollout");
    } else if (rule.period > 1) {
      rule.how += ", " + Count(rule.period, "a round");
    }
    if (rule.has_guessed_lead) rule.how += "; which of them begins it is a guess";
    if (!rule.doubt.empty()) rule.how += "; " + rule.doubt;
    if (rule.has_guessed_end) rule.how += "; which step zeroed gradients belong to is a guess";
    if (rule.kind == StepRule::Kind::kUpdate) rule.confidence *= 0.85;
    return rule;
  }
  rule = StepRule();
  markers = LoaderMarkers(items);
  if (markers.size() >= 2) {
    rule.kind = StepRule::Kind::kLoader;
    rule.how = "batches of a DataLoader";
    rule.confidence = 0.9;
    LearnFromBegins(items, markers, &rule);
    return rule;
  }
  if (!LearnPeriodic(items, &rule)) rule = StepRule();
  return rule;
}

std::vector<size_t> MarkersOf(const StepRule& rule, std::span<const StepItem> items) {
  switch (rule.kind) {
    case StepRule::Kind::kNone:
      return {};
    case StepRule::Kind::kProfilerStep:
      return MarkersOfClass(items, ItemClass::kProfilerStep);
    case StepRule::Kind::kOptimizer:
      return MarkersOfClass(items, ItemClass::kOptimizerStep);
    case StepRule::Kind::kUpdate:
      return UpdateMarkers(items);
    case StepRule::Kind::kLoader:
      return LoaderMarkers(items);
    case StepRule::Kind::kPeriodic:
      return SequenceMarkers(items, rule.sequence);
  }
  return {};
}

std::vector<uint32_t> PlacesInRound(const StepRule& rule, std::span<const StepItem> items,
                                    std::span<const size_t> markers, bool begins_with_step) {
  std::vector<uint32_t> places(markers.size(), 0);
  if (rule.period <= 1 || markers.size() < 2) return places;
  const std::vector<Segment> segments = SegmentsBetween(items, markers);
  if (rule.begins_sampling) {
    // The first marker's own segment is not known, so it is assumed to continue a round.
    places[0] = begins_with_step ? 0 : 1;
    for (size_t i = 1; i < markers.size(); ++i) {
      places[i] = segments[i - 1].samples > 0 ? 0 : places[i - 1] + 1;
    }
    return places;
  }
  constexpr double kBetter = 0.05;  // how much more alike another place must be
  for (size_t i = 1; i < markers.size(); ++i) {
    const Signature& signature = segments[i - 1].signature;
    const bool is_free = i == 1 && !begins_with_step;
    uint32_t place = is_free ? 0 : (places[i - 1] + 1) % rule.period;
    double alike = Similarity(signature, rule.slots[place]) + (is_free ? 0 : kBetter);
    for (uint32_t other = 0; other < rule.period; ++other) {
      const double likeness = Similarity(signature, rule.slots[other]);
      if (likeness <= alike) continue;
      alike = likeness;
      place = other;
    }
    places[i] = place;
  }
  if (!begins_with_step) places[0] = (places[1] + rule.period - 1) % rule.period;
  return places;
}

}  // namespace proftrace
