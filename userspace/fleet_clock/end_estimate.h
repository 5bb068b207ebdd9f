// The likeliest offsets, from when the ranks left the same collective: those times lie much closer
// together than the proved bounds. Blind to a host that always leaves later than the others, which
// only the bounds cover.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_moments.h"

namespace proftrace {

struct EndEstimate {
  // By member, by knot. Where a member left no collective together with others, its middles.
  std::vector<std::vector<int64_t>> wishes;
  // What the wishes are wrong by in one of twenty cases, if nobody always leaves late. Half the
  // width of the bounds where nothing better is known.
  std::vector<std::vector<int64_t>> likely_error_ns;
};

// Estimates the corrections from the reference on: the median over the collectives that two members
// share, near each knot, of the difference between their ends; then a line through those of all
// knots, where they lie on one. Members that share none with the reference follow from those that
// do. Linear in the rows.
EndEstimate EstimateByEnds(const FleetMoments& moments, const PieceTable& table,
                           std::span<const uint32_t> members, uint32_t reference);

}  // namespace proftrace
