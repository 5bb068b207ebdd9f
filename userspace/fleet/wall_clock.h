// A boot's wall clock (CLOCK_REALTIME) against its local one (CLOCK_MONOTONIC), by the snapshots of
// both that captures have. Profilers that write wall times are put on the boot's clock by it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "userspace/fleet_clock/fleet_input.h"

namespace proftrace {

// Straight between two snapshots. Where the wall clock was set, or the host slept, between two of
// them, the earlier one's difference holds until the later one: nobody knows when it happened.
class WallClock {
 public:
  // `snapshots`: in order of time; those without a wall time are skipped. Without any, the two
  // clocks are the same.
  explicit WallClock(std::span<const ClockSnapshot> snapshots);

  bool is_known() const { return !knots_.empty(); }
  // Both keep the order of times between two jumps of the wall clock.
  int64_t ToWall(int64_t local_ns) const;
  int64_t ToLocal(int64_t wall_ns) const;

  // Whether the wall clock jumped between snapshots: times of other profilers are not sure there.
  bool has_jump() const { return has_jump_; }

 private:
  struct Knot {
    int64_t local_ns = 0;
    int64_t wall_ns = 0;
    bool jumps_after = false;  // before the next knot
  };

  std::vector<Knot> knots_;
  bool has_jump_ = false;
};

}  // namespace proftrace
