#include "userspace/fleet/wall_clock.h"

#include <cstddef>
#include <cstdlib>

namespace proftrace {
namespace {

// The largest difference of rates that is not a jump. NTP slews by 500 ppm at most, quartz is off
// by 100 ppm (fleet_input.h), and the rest is for readings that are not exact.
constexpr int64_t kLargestSlewPpb = 1'500'000;
constexpr int64_t kReadingErrorNs = 100'000;

int64_t Scaled(int64_t part, int64_t to, int64_t from) {
  return static_cast<int64_t>(static_cast<__int128>(part) * to / from);
}

}  // namespace

WallClock::WallClock(std::span<const ClockSnapshot> snapshots) {
  for (const ClockSnapshot& snapshot : snapshots) {
    if (!snapshot.realtime_ns) continue;
    if (!knots_.empty() && snapshot.monotonic_ns <= knots_.back().local_ns) continue;
    if (!knots_.empty()) {
      Knot& last = knots_.back();
      const int64_t local_ns = snapshot.monotonic_ns - last.local_ns;
      const int64_t gain_ns = *snapshot.realtime_ns - last.wall_ns - local_ns;
      const int64_t slew_ns = Scaled(local_ns, kLargestSlewPpb, 1'000'000'000);
      last.jumps_after = std::abs(gain_ns) > slew_ns + kReadingErrorNs;
      has_jump_ = has_jump_ || last.jumps_after;
    }
    knots_.push_back({snapshot.monotonic_ns, *snapshot.realtime_ns, false});
  }
}

int64_t WallClock::ToWall(int64_t local_ns) const {
  if (knots_.empty()) return local_ns;
  size_t at = 0;
  while (at + 1 < knots_.size() && knots_[at + 1].local_ns <= local_ns) ++at;
  const Knot& knot = knots_[at];
  const int64_t since_ns = local_ns - knot.local_ns;
  if (since_ns <= 0 || knot.jumps_after || at + 1 == knots_.size()) return knot.wall_ns + since_ns;
  const Knot& next = knots_[at + 1];
  return knot.wall_ns +
         Scaled(since_ns, next.wall_ns - knot.wall_ns, next.local_ns - knot.local_ns);
}

int64_t WallClock::ToLocal(int64_t wall_ns) const {
  if (knots_.empty()) return wall_ns;
  if (wall_ns <= knots_.front().wall_ns) {
    return knots_.front().local_ns + (wall_ns - knots_.front().wall_ns);
  }
  for (size_t at = 0; at + 1 < knots_.size(); ++at) {
    const Knot& knot = knots_[at];
    const Knot& next = knots_[at + 1];
    const int64_t since_ns = wall_ns - knot.wall_ns;
    const int64_t length_ns = next.local_ns - knot.local_ns;
    if (since_ns < 0) continue;
    if (knot.jumps_after) {
      // Wall times that a forward jump has left out cannot have been read by anybody.
      if (since_ns < length_ns) return knot.local_ns + since_ns;
      if (wall_ns < next.wall_ns) return next.local_ns;
    } else if (wall_ns < next.wall_ns) {
      return knot.local_ns + Scaled(since_ns, length_ns, next.wall_ns - knot.wall_ns);
    }
  }
  return knots_.back().local_ns + (wall_ns - knots_.back().wall_ns);
}

}  // namespace proftrace
