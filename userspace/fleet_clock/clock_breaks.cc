#include "userspace/fleet_clock/clock_breaks.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "userspace/base/median.h"
#include "userspace/fleet_clock/clock_bounds.h"

namespace proftrace {
namespace {

// Smaller changes do not count. The clocks of a snapshot are not read at the same instant, which
// makes differences far below this.
constexpr int64_t kLeastChangeNs = 1'000'000;
// How many ends on each side of a place decide whether the clock jumped there.
constexpr size_t kEndsAround = 5;
constexpr size_t kFewestSharedEnds = 4;

// A clock that loses more may rather have stood still, and then shows no time twice; to leave out
// all collectives of so long a time would often unbind the clock.
constexpr int64_t kMostSetBackNs = 60'000'000;

// When a boot left a collective, and by how much the time is later at which another boot, by its
// own clock, left the same one.
struct SharedEnd {
  int64_t left_ns = 0;
  int64_t difference_ns = 0;
};

using EndsByPiece = std::map<uint32_t, std::vector<SharedEnd>>;

// Returns the ends that a boot shares with others between two local times, in order of time.
EndsByPiece SharedEnds(const FleetMoments& moments, const PieceTable& table, uint32_t boot,
                       int64_t after_ns, int64_t before_ns) {
  // The ends are kept by the piece of the other clock, so that breaks of that clock do not look
  // like jumps of this one.
  EndsByPiece by_piece;
  for (size_t moment = 0; moment < moments.moments.size(); ++moment) {
    if (!moments.moments[moment].is_bound || !moments.moments[moment].ends_together) continue;
    const MomentRow* own = nullptr;
    for (const MomentRow& row : moments.Rows(moment)) {
      if (row.boot == boot && row.left_ns != kNotLeft) own = &row;
    }
    if (!own || own->left_ns < after_ns || own->left_ns > before_ns) continue;
    uint32_t last_peer = boot;
    for (const MomentRow& row : moments.Rows(moment)) {
      if (row.boot == last_peer || row.boot == boot || row.left_ns == kNotLeft) continue;
      last_peer = row.boot;
      const auto piece = table.PieceAt(row.boot, row.left_ns);
      if (piece) by_piece[*piece].push_back({own->left_ns, row.left_ns - own->left_ns});
    }
  }
  for (auto& [piece, ends] : by_piece) {
    std::sort(ends.begin(), ends.end(), [](const SharedEnd& a, const SharedEnd& b) {
      return std::pair(a.left_ns, a.difference_ns) < std::pair(b.left_ns, b.difference_ns);
    });
  }
  return by_piece;
}

// How far from its line an end may be, because ranks do not leave together to the nanosecond: less
// than a tenth of what the clock gains, which tells a line from a jump, and less than the times of
// another run differ by.
constexpr int64_t kMostOffLineNs = 1'000'000;

// Returns what the other clock gains from the first to the last end; nullopt: it gains no more than
// `max_rate_ppb` makes, or not evenly. The ends in the middle tell a line from a jump, which leaves
// them a quarter of the gain away at least, and from the times of another run.
std::optional<int64_t> EvenGain(const std::vector<SharedEnd>& ends, int64_t max_rate_ppb,
                                size_t fewest_ends) {
  if (ends.size() < kFewestSharedEnds) return std::nullopt;
  const int64_t length_ns = ends.back().left_ns - ends.front().left_ns;
  const int64_t gain_ns = ends.back().difference_ns - ends.front().difference_ns;
  if (length_ns <= 0) return std::nullopt;
  const ClockRate rate = RateOf(gain_ns, length_ns);
  if (std::abs(rate.ppb()) <= max_rate_ppb) return std::nullopt;
  const int64_t most_off_ns = std::min(std::abs(gain_ns) / 10, kMostOffLineNs);
  size_t middle = 0;
  size_t on_line = 0;
  for (const SharedEnd& end : ends) {
    const int64_t since_ns = end.left_ns - ends.front().left_ns;
    if (since_ns < length_ns / 4 || since_ns > length_ns - length_ns / 4) continue;
    const int64_t on_line_ns = ends.front().difference_ns + GainedFloor(rate, since_ns);
    ++middle;
    on_line += std::abs(end.difference_ns - on_line_ns) <= most_off_ns ? 1 : 0;
  }
  if (middle < fewest_ends || on_line * 4 < middle * 3) return std::nullopt;
  return gain_ns;
}

struct PlacedJump {
  size_t index = 0;  // of the first end after the jump
  int64_t amount_ns = 0;
};

std::optional<PlacedJump> GreatestJump(const std::vector<SharedEnd>& ends) {
  if (ends.size() < kFewestSharedEnds) return std::nullopt;
  const auto median_of = [&](size_t begin, size_t end) {
    std::vector<int64_t> values;
    for (size_t i = begin; i < end; ++i) values.push_back(ends[i].difference_ns);
    return Median(std::move(values));
  };
  PlacedJump greatest;
  for (size_t i = 1; i < ends.size(); ++i) {
    const int64_t before = median_of(i - std::min(i, kEndsAround), i);
    const int64_t after = median_of(i, std::min(i + kEndsAround, ends.size()));
    // Medians of five ends differ one place beside the jump as well, so that the jump is where the
    // difference from one end to the next is as large, too.
    const int64_t here = ends[i].difference_ns - ends[i - 1].difference_ns;
    const int64_t amount = after - before;
    if ((here > 0) != (amount > 0) || std::abs(here) * 2 < std::abs(amount)) continue;
    if (std::abs(amount) > std::abs(greatest.amount_ns)) greatest = {i, amount};
  }
  if (greatest.index == 0) return std::nullopt;
  return greatest;
}

void AddChange(const ClockSnapshot& last, const ClockSnapshot& next, uint32_t boot,
               std::vector<SnapshotChange>& changes) {
  const int64_t passed_ns = next.monotonic_ns - last.monotonic_ns;
  const int64_t least_ns = kLeastChangeNs + last.gap_ns + next.gap_ns;
  SnapshotChange change = {SnapshotChange::Kind::kSuspend, boot, last.monotonic_ns,
                           next.monotonic_ns};
  int64_t slept_ns = 0;
  if (last.boottime_ns && next.boottime_ns) {
    slept_ns = *next.boottime_ns - *last.boottime_ns - passed_ns;
    change.amount_ns = slept_ns;
    if (slept_ns > least_ns) changes.push_back(change);
  }
  if (!last.realtime_ns || !next.realtime_ns) return;
  change.kind = SnapshotChange::Kind::kRealtimeStep;
  change.amount_ns = *next.realtime_ns - *last.realtime_ns - passed_ns - slept_ns;
  if (std::abs(change.amount_ns) > least_ns) changes.push_back(change);
}

}  // namespace

std::vector<SnapshotChange> ChangesBySnapshots(const FleetInput& input) {
  std::vector<SnapshotChange> changes;
  for (uint32_t boot = 0; boot < input.boots.size(); ++boot) {
    const std::vector<ClockSnapshot>& snapshots = input.boots[boot].snapshots;
    for (size_t i = 1; i < snapshots.size(); ++i) {
      AddChange(snapshots[i - 1], snapshots[i], boot, changes);
    }
  }
  return changes;
}

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

std::optional<ClockJump> FindJump(const FleetMoments& moments, const PieceTable& table,
                                  uint32_t boot, int64_t after_ns, int64_t before_ns,
                                  int64_t least_ns) {
  const EndsByPiece by_piece = SharedEnds(moments, table, boot, after_ns, before_ns);
  std::vector<ClockJump> jumps;
  for (const auto& [piece, ends] : by_piece) {
    const auto jump = GreatestJump(ends);
    if (!jump || std::abs(jump->amount_ns) < least_ns) continue;
    const SharedEnd& last = ends[jump->index - 1];
    const SharedEnd& next = ends[jump->index];
    // Where the clock was set back far enough, what came later has the earlier local times.
    const bool is_turned = next.left_ns + next.difference_ns < last.left_ns + last.difference_ns;
    const int64_t amount_ns = is_turned ? jump->amount_ns : -jump->amount_ns;
    // Ends scatter, so that the amount is not exact.
    const bool is_set_back = !is_turned && amount_ns < 0 && amount_ns >= -kMostSetBackNs;
    const int64_t twice_ns = is_set_back ? -amount_ns - amount_ns / 8 : 0;
    jumps.push_back({{boot, last.left_ns, next.left_ns, twice_ns}, amount_ns});
  }
  // Takes the place that most other pieces agree on. Where another clock jumped, only its own
  // pieces show that.
  std::optional<ClockJump> best;
  for (ClockJump& jump : jumps) {
    for (const ClockJump& other : jumps) {
      const bool is_same_place = other.at.after_ns < jump.at.before_ns &&
                                 other.at.before_ns > jump.at.after_ns &&
                                 (other.amount_ns > 0) == (jump.amount_ns > 0);
      jump.witnesses += is_same_place ? 1 : 0;
    }
    const auto length = [](const ClockJump& of) { return of.at.before_ns - of.at.after_ns; };
    if (!best || jump.witnesses > best->witnesses ||
        (jump.witnesses == best->witnesses && length(jump) < length(*best))) {
      best = jump;
    }
  }
  return best;
}

std::optional<ClockStretch> FindStretch(const FleetMoments& moments, const PieceTable& table,
                                        uint32_t boot, int64_t after_ns, int64_t before_ns,
                                        int64_t max_rate_ppb, size_t fewest_ends) {
  std::optional<ClockStretch> stretch;
  for (const auto& [piece, ends] : SharedEnds(moments, table, boot, after_ns, before_ns)) {
    const auto gain_ns = EvenGain(ends, max_rate_ppb, fewest_ends);
    if (!gain_ns) continue;
    const ClockStretch first = {boot, ends.front().left_ns, ends.back().left_ns, -*gain_ns};
    if (!stretch) stretch = first;
    ++stretch->witnesses;
  }
  return stretch;
}

}  // namespace proftrace
