#include "userspace/fleet_clock/order_matching.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "userspace/fleet_clock/clock_bounds.h"
#include "userspace/fleet_clock/rate.h"

namespace proftrace {
namespace {

// Fewer calls in common would fit nearly anywhere.
constexpr size_t kFewestInCommon = 4;
// How many placed sequences of the group a sequence is tried against, the longest first.
constexpr size_t kMostTargets = 4;

struct CallSequence {
  uint32_t rank = 0;              // index into FleetInput::ranks
  std::optional<uint32_t> piece;  // of its boot's clock; nullopt: the calls lie in a break
  std::vector<uint32_t> calls;    // indices into the rank's calls
  // The place of its first call, counted from the first call of the longest sequence
  std::optional<int64_t> place;
  bool is_ambiguous = false;
};

// The sequences of one group and attempt; the longest is first, and has the place 0.
struct OrderedGroup {
  uint32_t group = 0;
  int32_t attempt = 0;
  std::vector<CallSequence> sequences;
};

// The range of offsets that one pair of calls allows at a local time of the second rank.
struct OffsetGate {
  int64_t at_ns = 0;
  OffsetRange range;
};

OffsetGate GateOf(const MomentRow& first, const MomentRow& second, int64_t resolution_ns) {
  OffsetGate gate = {second.call_left_ns, {-kNoBound, kNoBound}};
  if (first.entered_ns != kNotEntered && second.left_ns != kNotLeft) {
    gate.range.low_ns = first.entered_ns - second.left_ns - 2 * resolution_ns;
  }
  if (second.entered_ns != kNotEntered && first.left_ns != kNotLeft) {
    gate.range.high_ns = first.left_ns - second.entered_ns + 2 * resolution_ns;
  }
  return gate;
}

// Returns the width of the range that all gates leave for a clock that gains by `rate`; below 0:
// they leave none.
int64_t OpeningAt(const std::vector<OffsetGate>& gates, ClockRate rate) {
  int64_t low = -kNoBound;
  int64_t high = kNoBound;
  for (const OffsetGate& gate : gates) {
    const int64_t gained = GainedFloor(rate, gate.at_ns - gates.front().at_ns);
    if (gate.range.low_ns > -kNoBound) low = std::max(low, gate.range.low_ns - gained);
    if (gate.range.high_ns < kNoBound) high = std::min(high, gate.range.high_ns - gained);
  }
  return high - low;
}

class OrderMatcher {
 public:
  OrderMatcher(const FleetInput& input, const FleetOptions& options, const PieceTable& pieces,
               const KnownOffset& known, FleetMoments& out)
      : input_(input), options_(options), pieces_(pieces), known_(known), out_(out) {}

  void Run() {
    CollectGroups();
    // The offset between two boots that one group shows may decide another group, so that all are
    // tried until no more can be placed.
    for (bool has_placed = true; has_placed;) {
      has_placed = false;
      for (OrderedGroup& group : groups_) {
        for (CallSequence& sequence : group.sequences) {
          if (!sequence.place) has_placed = Place(group, sequence) || has_placed;
        }
      }
    }
    for (const OrderedGroup& group : groups_) Emit(group);
  }

 private:
  void CollectGroups() {
    const std::vector<uint32_t> equal = EqualGroups(input_);
    std::map<std::tuple<int32_t, uint32_t>, OrderedGroup> groups;
    for (uint32_t rank = 0; rank < input_.ranks.size(); ++rank) {
      std::map<uint32_t, CallSequence> open;
      const auto close = [&](uint32_t group, CallSequence& sequence) {
        if (sequence.calls.empty()) return;
        OrderedGroup& of = groups[{input_.ranks[rank].attempt, group}];
        of.group = group;
        of.attempt = input_.ranks[rank].attempt;
        sequence.rank = rank;
        of.sequences.push_back(std::move(sequence));
        sequence = {};
      };
      const std::vector<CollectiveCall>& calls = input_.ranks[rank].calls;
      for (uint32_t call = 0; call < calls.size(); ++call) {
        if (calls[call].sequence || calls[call].kind == CollectiveKind::kSend ||
            calls[call].kind == CollectiveKind::kRecv) {
          continue;
        }
        const uint32_t group = equal[calls[call].group];
        const auto piece = pieces_.PieceAt(input_.ranks[rank].boot, calls[call].left_ns);
        if (calls[call].is_after_loss || open[group].piece != piece) close(group, open[group]);
        open[group].piece = piece;
        open[group].calls.push_back(call);
      }
      for (auto& [group, sequence] : open) close(group, sequence);
    }
    for (auto& [key, group] : groups) {
      std::sort(group.sequences.begin(), group.sequences.end(),
                [&](const CallSequence& a, const CallSequence& b) {
                  if (a.calls.size() != b.calls.size()) return a.calls.size() > b.calls.size();
                  const auto rank = [&](const CallSequence& of) {
                    return input_.ranks[of.rank].rank;
                  };
                  return std::pair(rank(a), a.calls[0]) < std::pair(rank(b), b.calls[0]);
                });
      group.sequences.front().place = 0;
      groups_.push_back(std::move(group));
    }
    std::sort(groups_.begin(), groups_.end(), [&](const OrderedGroup& a, const OrderedGroup& b) {
      const auto key = [&](const OrderedGroup& of) {
        const FleetGroup& group = input_.groups[of.group];
        return std::tuple(-static_cast<int64_t>(of.sequences.size()), of.attempt,
                          std::cref(group.name).get(), std::cref(group.ranks).get());
      };
      return key(a) < key(b);
    });
  }

  bool Place(OrderedGroup& group, CallSequence& sequence) {
    size_t targets = 0;
    for (const CallSequence& target : group.sequences) {
      if (!target.place || target.rank == sequence.rank) continue;
      if (++targets > kMostTargets) return false;
      if (PlaceBy(target, sequence)) return true;
    }
    return false;
  }

  bool PlaceBy(const CallSequence& target, CallSequence& sequence) {
    const auto length = static_cast<int64_t>(sequence.calls.size());
    const auto target_length = static_cast<int64_t>(target.calls.size());
    const int64_t shorter = std::min(length, target_length);
    const int64_t common = std::max<int64_t>(kFewestInCommon, (shorter + 1) / 2);
    if (shorter < common || !target.piece || !sequence.piece) return false;
    const std::optional<OffsetRange> known = Known(*target.piece, *sequence.piece);
    std::optional<int64_t> fitting;
    OffsetRange offset;
    for (int64_t shift = common - length; shift <= target_length - common; ++shift) {
      OffsetRange found = known.value_or(OffsetRange{-kNoBound, kNoBound});
      if (!Fits(target, sequence, shift, found)) continue;
      if (fitting) {
        sequence.is_ambiguous = true;
        return false;
      }
      fitting = shift;
      offset = found;
    }
    if (!fitting) return false;
    sequence.is_ambiguous = false;
    sequence.place = *target.place + *fitting;
    Learn(*target.piece, *sequence.piece, offset);
    return true;
  }

  // Whether the sequences fit with this shift. `offset` holds the known offset before the call, and
  // after it the range of all offsets that the pairs have left at any time.
  bool Fits(const CallSequence& target, const CallSequence& sequence, int64_t shift,
            OffsetRange& offset) {
    const RateRange any = {ClockRate::OfPpb(-options_.max_rate_ppb),
                           ClockRate::OfPpb(options_.max_rate_ppb)};
    const int64_t begin = std::max<int64_t>(0, -shift);
    const int64_t end = std::min(static_cast<int64_t>(sequence.calls.size()),
                                 static_cast<int64_t>(target.calls.size()) - shift);
    const OffsetRange known = offset;
    OffsetRange open = known;
    gates_.clear();
    size_t unlike = 0;
    for (int64_t call = begin; call < end; ++call) {
      const MomentRow first = RowOf(target, call + shift);
      const MomentRow second = RowOf(sequence, call);
      if (!IsSameCollective(first, second)) return false;
      unlike += IsOneWithoutDependence(CallOf(first), CallOf(second)) ? 1 : 0;
      const OffsetGate gate = GateOf(first, second, options_.resolution_ns);
      // From one call to the next the offset changes by no more than the largest rate allows.
      if (!gates_.empty()) {
        const int64_t apart_ns = std::max<int64_t>(0, gate.at_ns - gates_.back().at_ns);
        open.low_ns = std::max(known.low_ns, open.low_ns + any.Least(apart_ns));
        open.high_ns = std::min(known.high_ns, open.high_ns + any.Most(apart_ns));
      }
      open.low_ns = std::max(open.low_ns, gate.range.low_ns);
      open.high_ns = std::min(open.high_ns, gate.range.high_ns);
      if (open.low_ns > open.high_ns) return false;
      gates_.push_back(gate);
      offset.low_ns = gates_.size() == 1 ? open.low_ns : std::min(offset.low_ns, open.low_ns);
      offset.high_ns = gates_.size() == 1 ? open.high_ns : std::max(offset.high_ns, open.high_ns);
    }
    // Calls that bind nothing would fit with any shift.
    return unlike * 2 <= gates_.size() && FitsOneRate(any);
  }

  // Whether there is an even rate, give or take its wander, for which all gates leave a range. The
  // width of that range is concave in the rate, so that its maximum is found by ternary search.
  bool FitsOneRate(RateRange rates) const {
    const int64_t length_ns = gates_.back().at_ns - gates_.front().at_ns;
    const int64_t wander_ns =
        2 * GainedCeil(ClockRate::OfPpb(options_.wander_ppb), std::max<int64_t>(0, length_ns));
    int64_t low = rates.low.value;
    int64_t high = rates.high.value;
    while (high - low > 2) {
      const int64_t third = (high - low) / 3;
      const int64_t at_low = OpeningAt(gates_, {low + third});
      const int64_t at_high = OpeningAt(gates_, {high - third});
      if (std::max(at_low, at_high) + wander_ns >= 0) return true;
      if (at_low < at_high) {
        low += third;
      } else {
        high -= third;
      }
    }
    return OpeningAt(gates_, {(low + high) / 2}) + wander_ns >= 0;
  }

  MomentRow RowOf(const CallSequence& sequence, int64_t call) const {
    return RowOfCall(input_, sequence.rank, sequence.calls[static_cast<size_t>(call)]);
  }

  const CollectiveCall& CallOf(const MomentRow& row) const {
    return input_.ranks[row.rank].calls[row.call];
  }

  bool IsSameCollective(const MomentRow& a, const MomentRow& b) const {
    const CollectiveCall& first = CallOf(a);
    const CollectiveCall& second = CallOf(b);
    if (IsOneWithoutDependence(first, second)) return first.op == second.op;
    return first.kind == second.kind && first.op == second.op && first.bytes == second.bytes &&
           first.root == second.root;
  }

  // Whether one rank alone had no elements in the collective, or recorded only its call.
  static bool IsOneWithoutDependence(const CollectiveCall& first, const CollectiveCall& second) {
    return (first.kind == CollectiveKind::kNoDependence) !=
           (second.kind == CollectiveKind::kNoDependence);
  }

  std::optional<OffsetRange> Known(uint32_t first, uint32_t second) const {
    if (first == second) return OffsetRange{-options_.resolution_ns, options_.resolution_ns};
    std::optional<OffsetRange> known = known_(first, second);
    const auto learned = learned_.find({first, second});
    if (learned == learned_.end()) return known;
    if (!known) return learned->second;
    return OffsetRange{std::max(known->low_ns, learned->second.low_ns),
                       std::min(known->high_ns, learned->second.high_ns)};
  }

  void Learn(uint32_t first, uint32_t second, OffsetRange offset) {
    if (first == second) return;
    // The offset may change beyond the calls that showed it: a clock can gain a hundredth of a
    // second in 7 seconds.
    constexpr int64_t kBeyondNs = 10'000'000;
    offset.low_ns -= kBeyondNs;
    offset.high_ns += kBeyondNs;
    learned_.try_emplace({first, second}, offset);
    learned_.try_emplace({second, first}, OffsetRange{-offset.high_ns, -offset.low_ns});
  }

  void Emit(const OrderedGroup& group) {
    std::vector<const CallSequence*> placed;
    size_t unplaced = 0;
    size_t in_breaks = 0;
    bool is_ambiguous = false;
    for (const CallSequence& sequence : group.sequences) {
      if (!sequence.piece) {
        in_breaks += sequence.calls.size();
        continue;
      }
      if (!sequence.place) {
        ++unplaced;
        is_ambiguous = is_ambiguous || sequence.is_ambiguous;
        continue;
      }
      placed.push_back(&sequence);
    }
    const FleetGroup& of = input_.groups[group.group];
    if (in_breaks > 0) {
      out_.refused_groups.push_back(absl::StrFormat(
          "Group \"%s\": %d collectives without numbers lie between the two snapshots that a "
          "suspend lies between, and are not used.",
          of.name, in_breaks));
    }
    if (unplaced > 0) {
      const char* why = is_ambiguous ? "fit in more than one way and are not used; they repeat too "
                                       "evenly. Synchronised clocks (NTP) or numbers decide that."
                                     : "fit nowhere and are not used.";
      out_.refused_groups.push_back(
          absl::StrFormat("Group \"%s\": %d of %d sequences of collectives without numbers %s",
                          of.name, unplaced, group.sequences.size(), why));
    }
    EmitPlaced(group, std::move(placed));
  }

  // Appends a collective for each place that at least two sequences cover.
  void EmitPlaced(const OrderedGroup& group, std::vector<const CallSequence*> placed) {
    const auto end_of = [](const CallSequence& of) {
      return *of.place + static_cast<int64_t>(of.calls.size());
    };
    size_t calls = 0;
    for (const CallSequence* sequence : placed) calls += sequence->calls.size();
    out_.rows.reserve(out_.rows.size() + calls);
    std::sort(placed.begin(), placed.end(), [](const CallSequence* a, const CallSequence* b) {
      return std::pair(*a->place, a->rank) < std::pair(*b->place, b->rank);
    });
    std::vector<const CallSequence*> open;
    std::vector<MomentRow> rows;
    size_t next = 0;
    for (int64_t place = 0; next < placed.size() || !open.empty(); ++place) {
      if (open.empty()) place = *placed[next]->place;
      while (next < placed.size() && *placed[next]->place == place) open.push_back(placed[next++]);
      rows.clear();
      for (const CallSequence* sequence : open) {
        rows.push_back(RowOf(*sequence, place - *sequence->place));
      }
      std::erase_if(open, [&](const CallSequence* of) { return end_of(*of) == place + 1; });
      if (rows.size() < 2) continue;
      std::sort(rows.begin(), rows.end(),
                [](const MomentRow& a, const MomentRow& b) { return a.rank < b.rank; });
      FleetMoment moment;
      moment.match = FleetMoment::Match::kOrder;
      moment.group = group.group;
      moment.attempt = group.attempt;
      moment.sequence = place - *placed.front()->place;
      AppendMatched(input_, rows, moment, out_);
    }
  }

  const FleetInput& input_;
  const FleetOptions& options_;
  const PieceTable& pieces_;
  const KnownOffset& known_;
  FleetMoments& out_;
  std::vector<OrderedGroup> groups_;
  std::map<std::pair<uint32_t, uint32_t>, OffsetRange> learned_;
  std::vector<OffsetGate> gates_;
};

}  // namespace

void MatchByOrder(const FleetInput& input, const FleetOptions& options, const PieceTable& pieces,
                  const KnownOffset& known, FleetMoments& out) {
  OrderMatcher(input, options, pieces, known, out).Run();
}

}  // namespace proftrace
