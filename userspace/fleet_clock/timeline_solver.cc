#include "userspace/fleet_clock/timeline_solver.h"

#include <algorithm>

#include "userspace/fleet_clock/line_bounds.h"

namespace proftrace {
namespace {

constexpr uint32_t kNoMember = UINT32_MAX;
// The most knots of a piece. Knots that are closer together cost time; knots that are farther apart
// cost precision, because the rate is not known on the way to the nearest one.
constexpr uint64_t kMostKnots = 64;
constexpr uint64_t kEventsPerKnot = 8;
// The most rounds of narrowing rates. Four are enough on simulated fleets.
constexpr int kMostRounds = 8;

}  // namespace

TimelineSolver::TimelineSolver(const TimelineInput& input, PieceTable& table,
                               std::span<const uint32_t> members, uint32_t reference)
    : input_(input),
      table_(table),
      members_(members.begin(), members.end()),
      reference_(reference) {
  member_of_piece_.assign(table.pieces.size(), kNoMember);
  for (uint32_t member = 0; member < members_.size(); ++member) {
    member_of_piece_[members_[member]] = member;
  }
  slots_.assign(members_.size(), 0);
  Collect();
  PlaceKnots();
}

void TimelineSolver::Collect() {
  for (uint32_t moment = 0; moment < input_.moments.moments.size(); ++moment) {
    if (!input_.moments.moments[moment].is_bound) continue;
    const auto begin = static_cast<uint32_t>(events_.size());
    for (const MomentRow& row : input_.moments.Rows(moment)) {
      if (row.entered_ns != kNotEntered) AddEvent(begin, row.boot, row.entered_ns, false);
      if (row.left_ns != kNotLeft) AddEvent(begin, row.boot, row.left_ns, true);
    }
    if (!BindsTwo(begin)) {
      events_.resize(begin);
      continue;
    }
    event_ends_.push_back(static_cast<uint32_t>(events_.size()));
    used_moments_.push_back(moment);
  }
}

void TimelineSolver::AddEvent(uint32_t moment_begin, uint32_t boot, int64_t ns, bool is_left) {
  const auto piece = table_.PieceAt(boot, ns);
  if (!piece || member_of_piece_[*piece] == kNoMember) return;
  if (table_.pieces[*piece].MayBeOfLast(ns) || table_.pieces[*piece].MayBeOfNext(ns)) return;
  const uint32_t member = member_of_piece_[*piece];
  uint32_t slot = slots_[member];
  if (slot < moment_begin || slot >= events_.size() || events_[slot].member != member) {
    slot = slots_[member] = static_cast<uint32_t>(events_.size());
    events_.push_back({member});
  }
  const int64_t since_ns = ns - table_.pieces[*piece].from_ns;
  PieceEvents& events = events_[slot];
  if (is_left) {
    events.left_ns = std::min(events.left_ns, since_ns);
  } else {
    events.entered_ns = std::max(events.entered_ns, since_ns);
  }
}

bool TimelineSolver::BindsTwo(size_t begin) const {
  size_t entered = 0;
  size_t left = 0;
  size_t both = 0;
  for (size_t event = begin; event < events_.size(); ++event) {
    const bool has_entered = events_[event].entered_ns != kNotEntered;
    const bool has_left = events_[event].left_ns != kNotLeft;
    entered += has_entered ? 1 : 0;
    left += has_left ? 1 : 0;
    both += has_entered && has_left ? 1 : 0;
  }
  return entered * left > both;
}

RateRange TimelineSolver::AnyRate() const {
  return {ClockRate::OfPpb(-input_.options.max_rate_ppb),
          ClockRate::OfPpb(input_.options.max_rate_ppb)};
}

void TimelineSolver::PlaceKnots() {
  for (uint32_t member = 0; member < members_.size(); ++member) {
    ClockPiece& piece = Member(member);
    const bool is_reference = members_[member] == reference_;
    const uint64_t knots =
        is_reference ? 1 : std::clamp<uint64_t>(piece.events / kEventsPerKnot, 1, kMostKnots);
    piece.spacing_ns =
        std::max<int64_t>(1, (piece.to_ns - piece.from_ns) / static_cast<int64_t>(knots) + 1);
    piece.low_ns.assign(knots, -kNoBound);
    piece.high_ns.assign(knots, kNoBound);
    piece.rate = is_reference ? RateRange{} : AnyRate();
    first_knots_.push_back(static_cast<uint32_t>(member_of_knot_.size()));
    member_of_knot_.insert(member_of_knot_.end(), knots, member);
    if (is_reference) system_.reference = {first_knots_.back()};
  }
  system_.knots = member_of_knot_.size();
}

void TimelineSolver::BuildSystem() {
  system_.edges.clear();
  system_.moment_ends.clear();
  size_t event = 0;
  for (const uint32_t end : event_ends_) {
    for (; event < end; ++event) {
      const PieceEvents& of = events_[event];
      const ClockPiece& piece = Member(of.member);
      const uint32_t first_knot = first_knots_[of.member];
      MomentEdge edge;
      bool has_edge = false;
      if (of.entered_ns != kNotEntered) {
        const size_t knot = piece.NearestKnot(of.entered_ns);
        edge.knot = first_knot + static_cast<uint32_t>(knot);
        edge.entered_ns = of.entered_ns - input_.options.resolution_ns -
                          piece.slack.At(of.entered_ns) +
                          piece.rate.Least(of.entered_ns - piece.KnotAt(knot));
        has_edge = true;
      }
      if (of.left_ns != kNotLeft) {
        const size_t knot = piece.NearestKnot(of.left_ns);
        const auto left_knot = first_knot + static_cast<uint32_t>(knot);
        if (has_edge && edge.knot != left_knot) {
          system_.edges.push_back(edge);
          edge.entered_ns = kNotEntered;
        }
        edge.knot = left_knot;
        edge.left_ns = of.left_ns + input_.options.resolution_ns + piece.slack.At(of.left_ns) +
                       piece.rate.Most(of.left_ns - piece.KnotAt(knot));
      }
      system_.edges.push_back(edge);
    }
    system_.moment_ends.push_back(static_cast<uint32_t>(system_.edges.size()));
  }
  BuildSteps();
}

void TimelineSolver::BuildSteps() {
  system_.steps.clear();
  for (uint32_t member = 0; member < members_.size(); ++member) {
    const ClockPiece& piece = Member(member);
    for (uint32_t knot = 0; knot + 1 < piece.low_ns.size(); ++knot) {
      system_.steps.push_back({first_knots_[member] + knot, piece.rate.Least(piece.spacing_ns),
                               piece.rate.Most(piece.spacing_ns)});
    }
  }
}

std::optional<PieceContradiction> TimelineSolver::Solve() {
  for (int round = 0; round < kMostRounds;) {
    BuildSystem();
    if (const auto contradiction = SolveBounds(system_, bounds_)) {
      // Without hops it is not known which piece is less even than its line, so that the bounds by
      // lines are dropped for all.
      if (contradiction->hops.empty() && !system_.least_ns.empty()) {
        system_.least_ns.clear();
        system_.most_ns.clear();
        has_used_lines_ = true;
        continue;
      }
      // The loop ends, because each piece is freed only once.
      if (!FreeRates(*contradiction)) return ToPieces(*contradiction);
      round = 0;
      continue;
    }
    for (uint32_t member = 0; member < members_.size(); ++member) {
      ClockPiece& piece = Member(member);
      const auto first = static_cast<ptrdiff_t>(first_knots_[member]);
      const auto knots = static_cast<ptrdiff_t>(piece.low_ns.size());
      const auto low = bounds_.low_ns.begin() + first;
      const auto high = bounds_.high_ns.begin() + first;
      piece.low_ns.assign(low, low + knots);
      piece.high_ns.assign(high, high + knots);
    }
    if (++round == kMostRounds) break;
    if (!Narrow() && !NarrowByLines()) break;
  }
  const std::vector<int64_t> middles = Midpoints(bounds_);
  for (uint32_t member = 0; member < members_.size(); ++member) {
    ClockPiece& piece = Member(member);
    const auto first = middles.begin() + static_cast<ptrdiff_t>(first_knots_[member]);
    piece.middle_ns.assign(first, first + static_cast<ptrdiff_t>(piece.low_ns.size()));
    piece.value_ns = piece.middle_ns;
  }
  return std::nullopt;
}

std::optional<PieceContradiction> TimelineSolver::SolveWithSlack(
    const std::vector<ClockSlack>& slack) {
  for (uint32_t member = 0; member < members_.size(); ++member) {
    if (Member(member).is_bounded()) Member(member).slack = slack[member];
  }
  ResetRates();
  return Solve();
}

// Narrows the rates by the bounds. True: another round may make the bounds narrower.
bool TimelineSolver::Narrow() {
  bool has_gained = false;
  for (uint32_t member = 0; member < members_.size(); ++member) {
    ClockPiece& piece = Member(member);
    if (members_[member] == reference_ || piece.has_free_rate || !piece.is_bounded()) continue;
    has_gained = NarrowPiece(piece) || has_gained;
    // The piece's rate is not even, so that everything that was narrowed by its bounds may be wrong
    // as well.
    if (piece.has_free_rate) {
      ResetRates();
      return true;
    }
  }
  return has_gained;
}

bool TimelineSolver::NarrowByLines() {
  if (has_used_lines_) return false;  // a second time gains next to nothing
  has_used_lines_ = true;
  system_.least_ns.assign(system_.knots, -kNoBound);
  system_.most_ns.assign(system_.knots, kNoBound);
  for (uint32_t member = 0; member < members_.size(); ++member) {
    const ClockPiece& piece = Member(member);
    if (members_[member] == reference_ || piece.has_free_rate || !piece.is_bounded()) continue;
    const ClockBounds bounds =
        BoundsByLines(piece, ClockRate::OfPpb(input_.wander_ppb[piece.boot]));
    const auto first = static_cast<ptrdiff_t>(first_knots_[member]);
    std::copy(bounds.low_ns.begin(), bounds.low_ns.end(), system_.least_ns.begin() + first);
    std::copy(bounds.high_ns.begin(), bounds.high_ns.end(), system_.most_ns.begin() + first);
  }
  return true;
}

bool TimelineSolver::NarrowPiece(ClockPiece& piece) const {
  // r(t) = a + d t + wander; from one knot to another, the mean rate is d +- wander.
  RateRange even = AnyRate();
  const ClockRate wander = ClockRate::OfPpb(input_.wander_ppb[piece.boot]);
  even.low.value -= 2 * wander.value;
  even.high.value += 2 * wander.value;
  const size_t knots = piece.low_ns.size();
  for (size_t early = 0; early < knots; ++early) {
    for (size_t late = early + 1; late < knots; ++late) {
      const int64_t apart_ns = static_cast<int64_t>(late - early) * piece.spacing_ns;
      const int64_t least_ns = piece.low_ns[late] - piece.high_ns[early];
      const int64_t most_ns = piece.high_ns[late] - piece.low_ns[early];
      if (GainedFloor({even.low.value + wander.value}, apart_ns) < least_ns) {
        even.low.value = RateOf(least_ns, apart_ns).value - wander.value;
      }
      if (GainedCeil({even.high.value - wander.value}, apart_ns) > most_ns) {
        even.high.value = RateOf(most_ns, apart_ns).value + 1 + wander.value;
      }
    }
  }
  if (even.low > even.high) {
    piece.has_free_rate = true;
    return false;
  }
  RateRange narrowed = {{even.low.value - wander.value}, {even.high.value + wander.value}};
  narrowed.low = std::max(narrowed.low, piece.rate.low);
  narrowed.high = std::min(narrowed.high, piece.rate.high);
  const int64_t before = piece.rate.high.value - piece.rate.low.value;
  const int64_t after = narrowed.high.value - narrowed.low.value;
  piece.rate = narrowed;
  return after < before - before / 20;
}

void TimelineSolver::ResetRates() {
  for (uint32_t member = 0; member < members_.size(); ++member) {
    if (members_[member] != reference_) Member(member).rate = AnyRate();
  }
  system_.least_ns.clear();
  system_.most_ns.clear();
  has_used_lines_ = false;
}

bool TimelineSolver::FreeRates(const Contradiction& contradiction) {
  const RateRange any = AnyRate();
  bool has_freed = false;
  for (const ContradictionHop& hop : contradiction.hops) {
    for (const uint32_t knot : {hop.from_knot, hop.to_knot}) {
      ClockPiece& piece = Member(member_of_knot_[knot]);
      if (members_[member_of_knot_[knot]] == reference_ || piece.has_free_rate) continue;
      if (piece.rate.low == any.low && piece.rate.high == any.high) continue;
      piece.has_free_rate = has_freed = true;
    }
  }
  if (has_freed) ResetRates();
  return has_freed;
}

PieceContradiction TimelineSolver::ToPieces(const Contradiction& contradiction) const {
  PieceContradiction out;
  out.excess_ns = contradiction.excess_ns;
  for (const ContradictionHop& hop : contradiction.hops) {
    PieceContradiction::Hop& to = out.hops.emplace_back();
    to.from_piece = members_[member_of_knot_[hop.from_knot]];
    to.to_piece = members_[member_of_knot_[hop.to_knot]];
    if (hop.moment) to.moment = used_moments_[*hop.moment];
  }
  return out;
}

void TimelineSolver::SetValues(const std::vector<std::vector<int64_t>>& wishes) {
  std::vector<int64_t> wish(system_.knots);
  for (uint32_t member = 0; member < members_.size(); ++member) {
    std::copy(wishes[member].begin(), wishes[member].end(),
              wish.begin() + static_cast<ptrdiff_t>(first_knots_[member]));
  }
  const std::vector<int64_t> values = ClosestFeasible(system_, bounds_, wish);
  for (uint32_t member = 0; member < members_.size(); ++member) {
    ClockPiece& piece = Member(member);
    const auto first = values.begin() + static_cast<ptrdiff_t>(first_knots_[member]);
    piece.value_ns.assign(first, first + static_cast<ptrdiff_t>(piece.low_ns.size()));
  }
}

}  // namespace proftrace
