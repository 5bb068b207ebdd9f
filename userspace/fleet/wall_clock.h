// Converts between a boot's wall clock (CLOCK_REALTIME) and its local clock (CLOCK_MONOTONIC), by
// the snapshots of both that captures have. It puts the times of profilers that write wall times on
// the boot's clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "userspace/fleet_clock/fleet_input.h"

namespace proftrace {

// Times between two snapshots are interpolated. Where the wall clock was set, or the host slept,
// between two snapshots, the difference of the earlier snapshot holds until the later one, because
// nobody knows when the jump happened.
class WallClock {
 public:
  // `snapshots` must be in order of time; those without a wall time are skipped. Without any
  // snapshot, the two clocks count as equal.
  explicit WallClock(std::span<const ClockSnapshot> snapshots);

  bool is_known() const { return !knots_.empty(); }
  // Convert a time. Both functions keep the order of times between two jumps of the wall clock.
  int64_t ToWall(int64_t local_ns) const;
  int64_t ToLocal(int64_t wall_ns) const;

  // Returns whether the wall clock jumped between two snapshots. Times of other profilers are not
  // sure there.
  bool has_jump() const { return has_jump_; }

 private:
  struct Knot {
    int64_t local_ns = 0;
    int64_t wall_ns = 0;
    bool jumps_after = false;  // whether the wall clock jumps before the next knot
  };

  std::vector<Knot> knots_;
  bool has_jump_ = false;
};

}  // namespace proftrace
