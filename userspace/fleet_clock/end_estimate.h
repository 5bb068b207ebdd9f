// Estimates the likeliest offsets from the times at which the ranks left the same collectives.
// These times lie much closer together than the proved bounds. The estimate cannot see that a host
// always leaves later than the others; only the bounds cover that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "userspace/fleet_clock/clock_evenness.h"
#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_moments.h"

namespace proftrace {

struct EndEstimate {
  // The estimated corrections, by member and by knot. A member that left no collective together
  // with others has the middles of its bounds.
  std::vector<std::vector<int64_t>> wishes;
  // The error of the wishes that only one case in twenty exceeds, if no host always leaves late.
  // Half the width of the bounds where nothing better is known.
  std::vector<std::vector<int64_t>> likely_error_ns;
  // How far the corrections may be from a line (clock_evenness.h), by member; none for the
  // reference and where no ends tell it.
  std::vector<ClockSlack> slack;
};

// Estimates the corrections against the reference. For two members that share collectives, takes
// the median of the differences between their ends near each knot, and then a line through the
// medians of all knots, if these lie on one. Members that share no collective with the reference
// are estimated against members that do. The time is linear in the number of rows.
EndEstimate EstimateByEnds(const FleetMoments& moments, const PieceTable& table,
                           std::span<const uint32_t> members, uint32_t reference,
                           const EvenClocks& even);

}  // namespace proftrace
