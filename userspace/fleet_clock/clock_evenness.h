// Tells how far a clock may be from even, by the times at which its host and others left the same
// collectives. Bounds that take a clock as even would be untrue where it jumped by less than the
// ranks leave apart, was slewed, or was stretched.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_input.h"
#include "userspace/fleet_clock/rate.h"

namespace proftrace {

// What is known of clocks before ends are looked at.
struct EvenClocks {
  RateRange rates;  // those that a clock can have
  // By piece: whether the boot's snapshots cover it. Such a clock does not jump unseen, because
  // MONOTONIC is never set; only a virtual machine that is moved or halted loses time.
  std::vector<bool> is_watched;
};

EvenClocks KnownOfClocks(const FleetInput& input, const FleetOptions& options,
                         const PieceTable& table);

// By how much a clock would have to be corrected, if its host and another one had left a collective
// at the same instant.
struct EndDifference {
  int64_t since_ns = 0;       // since the begin of the piece of the clock
  int64_t correction_ns = 0;  // as the other host's clock has it
  // Whether nobody leaves before all have entered. A broadcast is left late by who enters it late.
  bool is_of_all = true;
};

// Returns how far the corrections of a clock may be away from a line whose rate is one of `rates`,
// at any event from the first to the last end. What the ends show is no proof: a change between two
// ends is seen in the ends on its one side, one in the first or the last collective in a single end
// or in none. `is_watched`: both clocks are known to be even, so that only what the ends show
// beyond doubt counts. No slack: there are no ends, or nothing counts.
//
//   correction       . . : .      The medians of neighbours show a step, a bend or a stretch of the
//            : . . .              clock; ends that are late alone are passed over, but not at the
//   --------------------- line    edges, where a step leaves few neighbours. Added is what can hide
//   | edge |        | edge |      in the scatter of as many ends.
ClockSlack UnevennessByEnds(std::vector<EndDifference> ends, RateRange rates, bool is_watched);

}  // namespace proftrace
