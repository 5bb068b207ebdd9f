// Implements SolveFleetClock(): makes timelines of boots and calls.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/median.h"
#include "userspace/fleet_clock/clock_bounds.h"
#include "userspace/fleet_clock/clock_breaks.h"
#include "userspace/fleet_clock/end_estimate.h"
#include "userspace/fleet_clock/fleet_clock.h"
#include "userspace/fleet_clock/order_matching.h"
#include "userspace/fleet_clock/piece_times.h"
#include "userspace/fleet_clock/timeline_solver.h"

namespace proftrace {
namespace {

// Sets of pieces that chains of moments connect (a disjoint-set forest).
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

// The rate that quartz (100 ppm) and NTP (500 ppm) can give to a clock together.
constexpr int64_t kMostLikelyRatePpb = 600'000;

// How many ends show that a clock is stretched where no dependence does.
constexpr size_t kFewestEndsOfSuspect = 8;

constexpr std::string_view kWhyStretched =
    "its times are stretched, as torch.profiler stretches a whole trace if the wall clock is set "
    "while it records";

std::string InSeconds(int64_t ns) {
  return absl::StrFormat("%+.6f s", static_cast<double>(ns) / 1e9);
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
    BreakBySnapshots();
    if (HasCallsWithoutNumber()) {
      // Calls with numbers are solved first. Their bounds decide where calls without numbers
      // belong.
      if (absl::Status status = SolveAndBreak(); !status.ok()) return status;
      MatchByOrder(
          input_, options_, clock_.table_,
          [&](uint32_t first, uint32_t second) { return KnownOffsetOf(first, second); },
          clock_.moments_);
      for (const ClockStretch& stretch : stretches_) DropBoot(stretch.boot, clock_.moments_);
    }
    if (absl::Status status = SolveAndBreak(); !status.ok()) return status;
    CollectFindings();
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

  // Returns the offset between two pieces as the timelines solved so far tell it, or as NTP states
  // it where the pieces are on different timelines.
  std::optional<OffsetRange> KnownOffsetOf(uint32_t first, uint32_t second) const {
    const PieceTable& table = clock_.table_;
    if (clock_.timeline_of_piece_[first] != clock_.timeline_of_piece_[second]) {
      return OffsetByNtp(input_.boots[table.pieces[first].boot],
                         input_.boots[table.pieces[second].boot]);
    }
    const auto range = [&](uint32_t piece) {
      const ClockPiece& of = table.pieces[piece];
      // Calls without numbers may lie before the first and after the last call with a number.
      const int64_t beyond_ns =
          of.rate.Most(of.spacing_ns) + of.spacing_ns / 100 + of.slack.edge_ns;
      return OffsetRange{
          *std::min_element(of.low_ns.begin(), of.low_ns.end()) - of.from_ns - beyond_ns,
          *std::max_element(of.high_ns.begin(), of.high_ns.end()) - of.from_ns + beyond_ns};
    };
    return OffsetRange{range(second).low_ns - range(first).high_ns,
                       range(second).high_ns - range(first).low_ns};
  }

  // Adds a break wherever snapshots say that a clock stood still. Its collectives may show the
  // place more exactly.
  void BreakBySnapshots() {
    changes_ = ChangesBySnapshots(input_);
    if (changes_.empty()) return;
    const PieceTable whole = MakePieces(input_.boots.size(), {}, clock_.moments_);
    for (SnapshotChange& change : changes_) {
      if (change.kind != SnapshotChange::Kind::kSuspend) continue;
      if (const auto jump = FindJump(clock_.moments_, whole, change.boot, change.after_ns,
                                     change.before_ns, change.amount_ns / 2)) {
        change.after_ns = jump->at.after_ns;
        change.before_ns = jump->at.before_ns;
      }
      breaks_.push_back({change.boot, change.after_ns, change.before_ns});
    }
  }

  // Solves the timelines. While dependences contradict each other, looks for a clock in the
  // contradiction that is stretched or has jumped, as the clocks that share collectives with it
  // agree. The stretched one is left out; where one has jumped, a break is added.
  absl::Status SolveAndBreak() {
    const size_t most_breaks = breaks_.size() + 16 + input_.boots.size();
    while (true) {
      absl::Status status = SolveTimelines();
      if (status.ok() && LeaveOutStretched(suspects_, kFewestEndsOfSuspect)) continue;
      if (status.ok() || !contradiction_ || breaks_.size() >= most_breaks) return status;
      const std::vector<uint32_t> pieces = PiecesOf(*contradiction_);
      if (LeaveOutStretched(pieces, 1)) continue;
      const std::optional<ClockJump> jump = FindWhatJumped(pieces);
      if (!jump) return status;
      for (const ClockBreak& known : breaks_) {
        if (known.boot == jump->at.boot && known.after_ns == jump->at.after_ns) return status;
      }
      breaks_.push_back(jump->at);
      jumps_.push_back(*jump);
    }
  }

  std::vector<uint32_t> PiecesOf(const PieceContradiction& contradiction) const {
    std::vector<uint32_t> pieces;
    for (const PieceContradiction::Hop& hop : contradiction.hops) pieces.push_back(hop.to_piece);
    std::sort(pieces.begin(), pieces.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(BootId(a), a) < std::pair(BootId(b), b);
    });
    pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
    return pieces;
  }

  // Leaves out the clock that is stretched, if one of these pieces' is. As for a jump: what is
  // stretched is so against all others.
  bool LeaveOutStretched(const std::vector<uint32_t>& pieces, size_t fewest_ends) {
    std::optional<ClockStretch> best;
    for (const uint32_t piece : pieces) {
      const ClockPiece& of = clock_.table_.pieces[piece];
      const auto stretch = FindStretch(clock_.moments_, clock_.table_, of.boot, of.from_ns,
                                       of.to_ns, options_.max_rate_ppb, fewest_ends);
      if (!stretch || (of.boot == forced_reference_ && stretch->witnesses < 2)) continue;
      if (!best || stretch->witnesses >= best->witnesses) best = stretch;
    }
    if (!best) return false;
    stretches_.push_back(*best);
    DropBoot(best->boot, clock_.moments_);
    return true;
  }

  // Notes the pieces that are stretched by what their ends tell, although no dependence contradicts
  // that, and the reference, which all others may seem to be stretched against.
  void NoteSuspects(const std::vector<uint32_t>& members, const EndEstimate& estimate,
                    uint32_t reference) {
    bool has_any = false;
    for (size_t member = 0; member < members.size(); ++member) {
      const std::vector<int64_t>& wishes = estimate.wishes[member];
      const ClockPiece& piece = clock_.table_.pieces[members[member]];
      if (wishes.size() < 2 || !piece.is_bounded()) continue;
      const int64_t apart_ns = piece.KnotAt(wishes.size() - 1) - piece.KnotAt(0);
      const ClockRate rate = RateOf(wishes.back() - wishes.front(), apart_ns);
      if (std::abs(rate.ppb()) <= options_.max_rate_ppb) continue;
      suspects_.push_back(members[member]);
      has_any = true;
    }
    if (has_any) suspects_.insert(suspects_.begin(), reference);
  }

  std::optional<ClockJump> FindWhatJumped(const std::vector<uint32_t>& pieces) const {
    const PieceTable& table = clock_.table_;
    // A clock that jumped did so against all other clocks, while each of these jumped only against
    // that one. Between only two clocks nobody can tell which one jumped: the first is taken as
    // right.
    std::optional<ClockJump> best;
    for (const uint32_t piece : pieces) {
      const ClockPiece& of = table.pieces[piece];
      const auto jump = FindJump(clock_.moments_, table, of.boot, of.from_ns, of.to_ns,
                                 std::max<int64_t>(1, contradiction_->excess_ns / 2));
      if (jump && (!best || jump->witnesses >= best->witnesses)) best = jump;
    }
    return best;
  }

  absl::Status SolveTimelines() {
    contradiction_.reset();
    clock_.table_ = MakePieces(input_.boots.size(), breaks_, clock_.moments_);
    PieceTable& table = clock_.table_;
    clock_.timeline_of_piece_.assign(table.pieces.size(), 0);
    clock_.timelines_.clear();
    suspects_.clear();
    wander_ppb_.clear();
    for (const FleetBoot& boot : input_.boots) {
      wander_ppb_.push_back(options_.wander_ppb + SlewedPpb(boot));
    }

    std::vector<std::vector<uint32_t>> sets = ConnectedSets();
    // Pieces that are bound from one side only are left over. They may still be bound to each
    // other, so that they are solved again without the rest.
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
      members[sets.Find(piece)].push_back(piece);
    }
    std::vector<std::vector<uint32_t>> out;
    for (auto& [root, pieces] : members) out.push_back(std::move(pieces));
    // The last set is solved first: the one with the most events or, of several, the first by boot.
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
    const TimelineInput input = {clock_.moments_, options_, wander_ppb_};
    TimelineSolver solver(input, table, members, reference);
    contradiction_ = solver.Solve();
    if (contradiction_) {
      return absl::FailedPreconditionError(Explain(*contradiction_));
    }
    const EndEstimate estimate = EstimateByEnds(clock_.moments_, table, members, reference,
                                                KnownOfClocks(input_, options_, table));
    NoteSuspects(members, estimate, reference);
    contradiction_ = solver.SolveWithSlack(estimate.slack);
    if (contradiction_) {
      return absl::FailedPreconditionError(Explain(*contradiction_));
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

  // Returns by how much a boot's REALTIME was ahead of its local clock at its first snapshot that
  // has both; 0: there is none.
  int64_t RealtimeOf(uint32_t boot) const {
    for (const ClockSnapshot& snapshot : input_.boots[boot].snapshots) {
      if (snapshot.realtime_ns) return *snapshot.realtime_ns - snapshot.monotonic_ns;
    }
    return 0;
  }

  void CollectFindings();
  void PlaceByNtp();
  void FindRestarts();
  void FindOddPieces();
  void AddStretches();
  void FindLikelyStretches(uint32_t timeline);
  void AddFinding(ClockFinding::Kind kind, const ClockBreak& at, int64_t amount_ns,
                  std::string text) {
    clock_.findings_.push_back(
        {kind, at.boot, at.after_ns, at.before_ns, amount_ns, std::move(text)});
  }
  std::string Explain(const PieceContradiction& contradiction) const;
  std::string NameOf(uint32_t moment) const;

  const FleetInput& input_;
  const FleetOptions& options_;
  std::optional<uint32_t> forced_reference_;
  std::vector<SnapshotChange> changes_;
  std::vector<ClockJump> jumps_;
  std::vector<ClockStretch> stretches_;
  std::vector<uint32_t> suspects_;  // pieces that may be stretched
  std::vector<ClockBreak> breaks_;
  std::optional<PieceContradiction> contradiction_;
  std::vector<int64_t> wander_ppb_;
  FleetClock clock_;
};

void FleetSolver::CollectFindings() {
  for (const SnapshotChange& change : changes_) {
    const std::string& host = input_.boots[change.boot].host;
    const ClockBreak at = {change.boot, change.after_ns, change.before_ns};
    if (change.kind == SnapshotChange::Kind::kSuspend) {
      AddFinding(ClockFinding::Kind::kSuspend, at, change.amount_ns,
                 absl::StrFormat("%s was suspended for %s.", host, InSeconds(change.amount_ns)));
    } else {
      AddFinding(ClockFinding::Kind::kRealtimeStep, at, change.amount_ns,
                 absl::StrFormat("The wall clock of %s was set by %s; times of captures are not "
                                 "touched by that, those of other recordings are.",
                                 host, InSeconds(change.amount_ns)));
    }
  }
  for (const ClockJump& jump : jumps_) {
    AddFinding(ClockFinding::Kind::kClockStep, jump.at, jump.amount_ns,
               absl::StrFormat("The clock of %s jumped by %s, by what it shares with %d other "
                               "hosts; before and after are aligned on their own.",
                               input_.boots[jump.at.boot].host, InSeconds(jump.amount_ns),
                               jump.witnesses));
  }
  AddStretches();
  PlaceByNtp();
  FindRestarts();
  FindOddPieces();
  std::stable_sort(clock_.findings_.begin(), clock_.findings_.end(),
                   [&](const ClockFinding& a, const ClockFinding& b) {
                     const std::string& first = input_.boots[a.boot].boot_id;
                     const std::string& second = input_.boots[b.boot].boot_id;
                     return std::tie(first, a.after_ns) < std::tie(second, b.after_ns);
                   });
}

void FleetSolver::AddStretches() {
  for (const ClockStretch& stretch : stretches_) {
    const ClockBreak at = {stretch.boot, stretch.from_ns, stretch.to_ns};
    AddFinding(ClockFinding::Kind::kStretched, at, stretch.gain_ns,
               absl::StrFormat(
                   "The clock of %s gains %s on those of %d other hosts in %.1f s, more "
                   "than a clock can: %s; or they are of another run. It is not aligned.",
                   input_.boots[stretch.boot].host, InSeconds(stretch.gain_ns), stretch.witnesses,
                   static_cast<double>(stretch.to_ns - stretch.from_ns) / 1e9, kWhyStretched));
  }
  for (uint32_t timeline = 0; timeline < clock_.timelines_.size(); ++timeline) {
    FindLikelyStretches(timeline);
  }
}

// Names the pieces that go evenly, at a rate that is possible but not likely against most others.
void FleetSolver::FindLikelyStretches(uint32_t timeline) {
  const PieceTable& table = clock_.table_;
  std::vector<uint32_t> pieces;
  std::vector<int64_t> rates_ppb;
  for (uint32_t index = 0; index < table.pieces.size(); ++index) {
    const ClockPiece& piece = table.pieces[index];
    if (clock_.timeline_of_piece_[index] != timeline || !piece.is_bounded()) continue;
    if (piece.to_ns <= piece.from_ns) continue;
    pieces.push_back(index);
    rates_ppb.push_back(clock_.DriftOf(index).ppb);
  }
  if (pieces.size() < 2) return;
  // If there are only two, the reference is taken as right.
  const int64_t usual_ppb = pieces.size() > 2 ? Median(rates_ppb) : 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ClockPiece& piece = table.pieces[pieces[i]];
    const int64_t length_ns = piece.to_ns - piece.from_ns;
    const int64_t error_ns =
        *std::max_element(piece.likely_error_ns.begin(), piece.likely_error_ns.end());
    // The correction falls where the clock is too fast.
    const int64_t fast_ppb = usual_ppb - rates_ppb[i];
    if (std::abs(fast_ppb) - RateOf(2 * error_ns, length_ns).ppb() <= kMostLikelyRatePpb) continue;
    const auto gain_ns = GainedFloor(ClockRate::OfPpb(fast_ppb), length_ns);
    AddFinding(
        ClockFinding::Kind::kStretched, {piece.boot, piece.from_ns, piece.to_ns}, gain_ns,
        absl::StrFormat("The clock of %s goes at %+d ppm against most others', which is more "
                        "than quartz and NTP make: %s. Its durations are wrong by as much.",
                        input_.boots[piece.boot].host, fast_ppb / 1000, kWhyStretched));
  }
}

void FleetSolver::PlaceByNtp() {
  // By timeline: the offset from the common clock to UTC that the snapshots of each boot state.
  std::vector<std::vector<OffsetRange>> statements(clock_.timelines_.size());
  std::vector<std::vector<uint32_t>> boots(clock_.timelines_.size());
  for (uint32_t boot = 0; boot < input_.boots.size(); ++boot) {
    std::map<uint32_t, OffsetRange> by_timeline;
    for (const ClockSnapshot& snapshot : input_.boots[boot].snapshots) {
      const auto time = clock_.Map(boot, snapshot.monotonic_ns);
      if (!IsSynchronised(snapshot) || !time) continue;
      const int64_t error_ns = snapshot.ntp->max_error_ns + snapshot.gap_ns;
      const OffsetRange stated = {*snapshot.realtime_ns - error_ns - time->high_ns,
                                  *snapshot.realtime_ns + error_ns - time->low_ns};
      OffsetRange& all = by_timeline.try_emplace(time->timeline, stated).first->second;
      all.low_ns = std::min(all.low_ns, stated.low_ns);
      all.high_ns = std::max(all.high_ns, stated.high_ns);
    }
    for (const auto& [timeline, stated] : by_timeline) {
      statements[timeline].push_back(stated);
      boots[timeline].push_back(boot);
    }
  }
  std::optional<OffsetRange> first;
  for (uint32_t timeline = 0; timeline < clock_.timelines_.size(); ++timeline) {
    const NtpAgreement agreement = AgreeOnUtc(statements[timeline]);
    for (const size_t odd : agreement.odd) {
      const OffsetRange& stated = statements[timeline][odd];
      const int64_t off_ns = stated.low_ns > agreement.agreed->high_ns
                                 ? stated.low_ns - agreement.agreed->high_ns
                                 : stated.high_ns - agreement.agreed->low_ns;
      const uint32_t boot = boots[timeline][odd];
      AddFinding(ClockFinding::Kind::kNtpWrong, {boot, 0, 0}, off_ns,
                 absl::StrFormat("The wall clock of %s is wrong by %s more than its NTP states, by "
                                 "what most other hosts' state.",
                                 input_.boots[boot].host, InSeconds(off_ns)));
    }
    if (timeline == 0) {
      first = agreement.agreed;
    } else if (first && agreement.agreed) {
      // (UTC - this timeline) - (UTC - the first timeline).
      clock_.timelines_[timeline].by_ntp = OffsetRange{agreement.agreed->low_ns - first->high_ns,
                                                       agreement.agreed->high_ns - first->low_ns};
    }
  }
}

void FleetSolver::FindRestarts() {
  std::map<std::string, uint32_t> hosts;
  for (uint32_t boot = 0; boot < input_.boots.size(); ++boot) {
    const auto [first, is_new] = hosts.try_emplace(input_.boots[boot].host, boot);
    if (is_new) continue;
    AddFinding(ClockFinding::Kind::kHostRestart, {boot, 0, 0}, 0,
               absl::StrFormat("%s was restarted: the boots %s and %s have clocks of their own.",
                               first->first, input_.boots[first->second].boot_id,
                               input_.boots[boot].boot_id));
  }
  std::map<int32_t, const FleetRank*> ranks;
  for (const FleetRank& rank : input_.ranks) {
    const auto [first, is_new] = ranks.try_emplace(rank.rank, &rank);
    if (is_new) continue;
    const auto [early, late] = std::minmax(first->second->attempt, rank.attempt);
    AddFinding(ClockFinding::Kind::kRankRestart, {rank.boot, 0, 0}, 0,
               absl::StrFormat("Rank %d was restarted: its attempts %d and %d are apart.",
                               rank.rank, early, late));
  }
}

void FleetSolver::FindOddPieces() {
  const PieceTable& table = clock_.table_;
  for (uint32_t index = 0; index < table.pieces.size(); ++index) {
    const ClockPiece& piece = table.pieces[index];
    const ClockBreak at = {piece.boot, piece.from_ns, piece.to_ns};
    const std::string& host = input_.boots[piece.boot].host;
    if (piece.has_free_rate) {
      AddFinding(ClockFinding::Kind::kRateVaries, at, 0,
                 absl::StrFormat("The clock of %s did not go evenly against the others' (NTP may "
                                 "have slewed one of them); its bounds are wider.",
                                 host));
    }
    if (clock_.timeline_of_piece_[index] == 0) continue;
    const bool is_whole = piece.ends_ns == INT64_MAX && piece.begins_ns == INT64_MIN;
    const uint32_t timeline = clock_.timeline_of_piece_[index];
    std::string text = absl::StrFormat(
        "%s is not aligned: nothing binds %s clock to the others' from both sides. Its times are "
        "on "
        "timeline %d",
        host, is_whole ? "its" : "a piece of its", timeline);
    if (const auto& by_ntp = clock_.timelines_[timeline].by_ntp) {
      absl::StrAppend(&text, ", which NTP alone places, to ",
                      InSeconds((by_ntp->high_ns - by_ntp->low_ns + 1) / 2));
    }
    AddFinding(ClockFinding::Kind::kNotAligned, at, 0, text + ".");
  }
}

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
