// Computes narrower bounds for a clock whose rate is even: its corrections lie near one line, which
// must keep the bounds of all knots at once.
//
//   high  \     .-'   \    .-'      A line below all of the upper bounds and above all of the
//          '---'       '--'         lower ones: at each knot, how high can it be, and how low?
//   low   .--.___.--.___.--
#pragma once

#include "userspace/fleet_clock/clock_bounds.h"
#include "userspace/fleet_clock/clock_pieces.h"

namespace proftrace {

// Returns the bounds of `piece` by all lines that keep its bounds and have a rate of piece.rate,
// give or take `wander` on the way from one knot to another. They contain the piece's true
// corrections whenever its own bounds do and its rate is so even.
ClockBounds BoundsByLines(const ClockPiece& piece, ClockRate wander);

}  // namespace proftrace
