// SolveFleetClock(): from boots and calls to timelines.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/fleet_clock/clock_bounds.h"
#include "userspace/fleet_clock/end_estimate.h"
#include "userspace/fleet_clock/fleet_clock.h"
#include "userspace/fleet_clock/order_matching.h"
#include "userspace/fleet_clock/piece_times.h"
#include "userspace/fleet_clock/timeline_solver.h"

namespace proftrace {
namespace {

// Pieces that a chain of moments connects.
class PieceSets {
 public:
  explicit PieceSets(size_t pieces) : parent_(pieces) {
    std::iota(parent_.begin(), parent_.end(), 0u);
  }
  uint32_t Find(uint32_t piece) {
    while (parent_[piece] != piece) piece = parent_[piece] = parent_[parent_[piece]];
    return piece;
  }
  void Join(uint32_t a, uint32_t b) { parent_[Find(a)] = Find(b); }

 private:
  std::vector<uint32_t> parent_;
};

// How uneven NTP made the rate, by what MONOTONIC gained on MONOTONIC_RAW between snapshots.
int64_t SlewedPpb(const FleetBoot& boot) {
  constexpr int64_t kShortestNs = 1'000'000'000;
  std::optional<int64_t> least;
  std::optional<int64_t> most;
  const ClockSnapshot* last = nullptr;
  for (const ClockSnapshot& snapshot : boot.snapshots) {
    if (!snapshot.monotonic_raw_ns) continue;
    if (last && snapshot.monotonic_ns - last->monotonic_ns >= kShortestNs) {
      const int64_t apart_ns = snapshot.monotonic_ns - last->monotonic_ns;
      const int64_t gain_ns = apart_ns - (*snapshot.monotonic_raw_ns - *last->monotonic_raw_ns);
      const int64_t gap_ns = snapshot.gap_ns + last->gap_ns;
      const int64_t low = RateOf(gain_ns + gap_ns, apart_ns).ppb();
      const int64_t high = RateOf(gain_ns - gap_ns, apart_ns).ppb();
      least = std::min(least.value_or(low), low);
      most = std::max(most.value_or(high), high);
    } else if (last) {
      continue;
    }
    last = &snapshot;
  }
  return least && most ? std::max<int64_t>(0, *most - *least) : 0;
}

}  // namespace

class FleetSolver {
 public:
  FleetSolver(const FleetInput& input, const FleetOptions& options)
      : input_(input), options_(options) {}

  absl::StatusOr<FleetClock> Solve() && {
    if (absl::Status status = CheckFleetInput(input_); !status.ok()) return status;
    if (absl::Status status = FindForcedReference(); !status.ok()) return status;
    MatchByNumber(input_, clock_.moments_);
    MatchStreams(input_, clock_.moments_);
    if (HasCallsWithoutNumber()) {
      // What numbers tell of the boots decides where the others belong.
      if (absl::Status status = SolveTimelines(); !status.ok()) return status;
      MatchByOrder(
          input_, options_,
          [&](uint32_t first, uint32_t second) { return KnownOffsetOf(first, second); },
          clock_.moments_);
    }
    if (absl::Status status = SolveTimelines(); !status.ok()) return status;
    return std::move(clock_);
  }

 private:
  absl::Status FindForcedReference() {
    if (!options_.reference_boot_id) return absl::OkStatus();
    for (uint32_t boot = 0; boot < input_.boots.size(); ++boot) {
      if (input_.boots[boot].boot_id == *options_.reference_boot_id) forced_reference_ = boot;
    }
    if (forced_reference_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the boot ", *options_.reference_boot_id,
                     ", whose clock is to be the common one, is not in the input"));
  }

  bool HasCallsWithoutNumber() const {
    for (const FleetRank& rank : input_.ranks) {
      for (const CollectiveCall& call : rank.calls) {
        if (!call.sequence) return true;
      }
    }
    return false;
  }

  // By the timelines as they are solved now, else by NTP.
  std::optional<OffsetRange> KnownOffsetOf(uint32_t first, uint32_t second) const {
    const PieceTable& table = clock_.table_;
    const uint32_t a = table.first_pieces[first];
    const uint32_t b = table.first_pieces[second];
    const bool are_whole =
        table.first_pieces[first + 1] - a == 1 && table.first_pieces[second + 1] - b == 1;
    if (!are_whole || clock_.timeline_of_piece_[a] != clock_.timeline_of_piece_[b]) {
      return OffsetByNtp(input_.boots[first], input_.boots[second]);
    }
    const auto range = [&](uint32_t piece) {
      const ClockPiece& of = table.pieces[piece];
      // Calls without numbers may lie outside of those with.
      const int64_t beyond_ns = of.rate.Most(of.spacing_ns) + of.spacing_ns / 100;
      return OffsetRange{
          *std::min_element(of.low_ns.begin(), of.low_ns.end()) - of.from_ns - beyond_ns,
          *std::max_element(of.high_ns.begin(), of.high_ns.end()) - of.from_ns + beyond_ns};
    };
    return OffsetRange{range(b).low_ns - range(a).high_ns, range(b).high_ns - range(a).low_ns};
  }

  absl::Status SolveTimelines() {
    clock_.table_ = MakePieces(input_.boots.size() + 1, breaks_, clock_.moments_);
    PieceTable& table = clock_.table_;
    clock_.timeline_of_piece_.assign(table.pieces.size(), 0);
    clock_.timelines_.clear();
    wander_ppb_.clear();
    for (const FleetBoot& boot : input_.boots) {
      wander_ppb_.push_back(options_.wander_ppb + SlewedPpb(boot));
    }
    wander_ppb_.push_back(options_.max_rate_ppb);  // UTC

    std::vector<std::vector<uint32_t>> sets = ConnectedSets();
    // What is bound from one side only is left over, and may still be bound among itself.
    while (!sets.empty()) {
      const std::vector<uint32_t> members = std::move(sets.back());
      sets.pop_back();
      std::vector<uint32_t> left_over;
      if (absl::Status status = SolveTimeline(members, left_over); !status.ok()) return status;
      if (!left_over.empty()) sets.push_back(std::move(left_over));
    }
    return absl::OkStatus();
  }

  std::vector<std::vector<uint32_t>> ConnectedSets() {
    PieceTable& table = clock_.table_;
    PieceSets sets(table.pieces.size());
    for (size_t moment = 0; moment < clock_.moments_.moments.size(); ++moment) {
      if (!clock_.moments_.moments[moment].is_bound) continue;
      std::optional<uint32_t> first;
      for (const MomentRow& row : clock_.moments_.Rows(moment)) {
        for (const int64_t ns : {row.entered_ns, row.left_ns}) {
          if (ns == kNotEntered || ns == kNotLeft) continue;
          const auto piece = table.PieceAt(row.boot, ns);
          if (!piece) continue;
          if (first) sets.Join(*piece, *first);
          first = piece;
        }
      }
    }
    std::map<uint32_t, std::vector<uint32_t>> members;
    for (uint32_t piece = 0; piece < table.pieces.size(); ++piece) {
      if (table.pieces[piece].boot == input_.boots.size()) continue;
      members[sets.Find(piece)].push_back(piece);
    }
    std::vector<std::vector<uint32_t>> out;
    for (auto& [root, pieces] : members) out.push_back(std::move(pieces));
    // The last is solved first: the one with the most events, then by boot.
    const auto events = [&](const std::vector<uint32_t>& pieces) {
      uint64_t sum = 0;
      for (const uint32_t piece : pieces) sum += table.pieces[piece].events;
      return sum;
    };
    std::sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
      if (events(a) != events(b)) return events(a) < events(b);
      return BootId(a.front()) > BootId(b.front());
    });
    return out;
  }

  const std::string& BootId(uint32_t piece) const {
    return input_.boots[clock_.table_.pieces[piece].boot].boot_id;
  }

  uint32_t ChooseReference(const std::vector<uint32_t>& members) const {
    const PieceTable& table = clock_.table_;
    const auto is_better = [&](uint32_t a, uint32_t b) {
      const auto key = [&](uint32_t piece) {
        const uint32_t boot = table.pieces[piece].boot;
        const bool is_whole = table.first_pieces[boot + 1] - table.first_pieces[boot] == 1;
        return std::tuple(forced_reference_ == boot, is_whole, table.pieces[piece].events);
      };
      if (key(a) != key(b)) return key(a) > key(b);
      return std::pair(BootId(a), a) < std::pair(BootId(b), b);
    };
    return *std::min_element(members.begin(), members.end(), is_better);
  }

  absl::Status SolveTimeline(const std::vector<uint32_t>& members,
                             std::vector<uint32_t>& left_over) {
    const uint32_t reference = ChooseReference(members);
    PieceTable& table = clock_.table_;
    TimelineSolver solver(clock_.moments_, options_, wander_ppb_, table, members, reference);
    if (const auto contradiction = solver.Solve()) {
      return absl::FailedPreconditionError(Explain(*contradiction));
    }
    const auto number = static_cast<uint32_t>(clock_.timelines_.size());
    std::vector<uint32_t> bounded;
    for (const uint32_t piece : members) {
      if (table.pieces[piece].is_bounded()) {
        bounded.push_back(piece);
        clock_.timeline_of_piece_[piece] = number;
      } else {
        left_over.push_back(piece);
      }
    }
    const EndEstimate estimate = EstimateByEnds(clock_.moments_, table, members, reference);
    solver.SetValues(estimate.wishes);
    for (size_t member = 0; member < members.size(); ++member) {
      ClockPiece& piece = table.pieces[members[member]];
      if (!piece.is_bounded()) continue;
      piece.likely_error_ns = estimate.likely_error_ns[member];
      for (size_t knot = 0; knot < piece.value_ns.size(); ++knot) {
        piece.likely_error_ns[knot] +=
            std::abs(piece.value_ns[knot] - estimate.wishes[member][knot]);
      }
    }
    FleetTimeline timeline;
    timeline.reference_piece = reference;
    timeline.reference_boot = table.pieces[reference].boot;
    timeline.zero_ns = table.pieces[reference].from_ns + RealtimeOf(timeline.reference_boot);
    timeline.pieces = bounded.size();
    timeline.used_moments = solver.used_moments();
    clock_.timelines_.push_back(timeline);
    return absl::OkStatus();
  }

  // What a boot's REALTIME was ahead of its local clock at its first snapshot.
  int64_t RealtimeOf(uint32_t boot) const {
    for (const ClockSnapshot& snapshot : input_.boots[boot].snapshots) {
      if (snapshot.realtime_ns) return *snapshot.realtime_ns - snapshot.monotonic_ns;
    }
    return 0;
  }

  std::string Explain(const PieceContradiction& contradiction) const;
  std::string NameOf(uint32_t moment) const;

  const FleetInput& input_;
  const FleetOptions& options_;
  std::optional<uint32_t> forced_reference_;
  std::vector<ClockBreak> breaks_;
  std::vector<int64_t> wander_ppb_;
  FleetClock clock_;
};

std::string FleetSolver::NameOf(uint32_t moment) const {
  const FleetMoment& of = clock_.moments_.moments[moment];
  switch (of.source) {
    case FleetMoment::Source::kCollective:
      return absl::StrFormat("collective %d of group \"%s\"", of.sequence,
                             input_.groups[of.group].name);
    case FleetMoment::Source::kMessage:
      return absl::StrFormat("message %d of group \"%s\"", of.sequence,
                             input_.groups[of.group].name);
    case FleetMoment::Source::kStream:
      return "bytes of a TCP connection";
    case FleetMoment::Source::kNtp:
      return "what NTP says";
  }
  return "";
}

std::string FleetSolver::Explain(const PieceContradiction& contradiction) const {
  std::string text = absl::StrFormat(
      "The clocks cannot be put on one timeline: what depends on what would have to go round in "
      "%d ns less than no time.",
      contradiction.excess_ns);
  for (const PieceContradiction::Hop& hop : contradiction.hops) {
    if (!hop.moment) continue;
    const auto host = [&](uint32_t piece) {
      return input_.boots[clock_.table_.pieces[piece].boot].host;
    };
    absl::StrAppend(&text, " ", host(hop.to_piece), " entered ", NameOf(*hop.moment), " that ",
                    host(hop.from_piece), " left.");
  }
  absl::StrAppend(&text, " Are these recordings of the same job, and is none of them changed?");
  return text;
}

absl::StatusOr<FleetClock> SolveFleetClock(const FleetInput& input, const FleetOptions& options) {
  return FleetSolver(input, options).Solve();
}

}  // namespace proftrace
