// Matches collectives that have no number by their order: torch before 2.2 gives none, and gloo's
// rows never have one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_input.h"
#include "userspace/fleet_clock/fleet_moments.h"
#include "userspace/fleet_clock/ntp_statements.h"

namespace proftrace {

// Returns the offset of the second piece's clock against the first's, as far as it is known before
// anything is matched; nullopt: nothing is known.
using KnownOffset = std::function<std::optional<OffsetRange>(uint32_t, uint32_t)>;

// Appends the collectives without a number. The calls of two ranks of a group are laid over each
// other with every shift that covers at least half of the shorter sequence. A shift fits where
// operation, size and root agree in all pairs, and where with one offset and one rate of the clocks
// nobody leaves before all have entered. Where one call alone of a pair is of kNoDependence, only
// the operations are compared; at most half of the pairs may be such. If exactly one shift fits, it
// is taken. If several fit, because the job repeats so evenly that its transfers do not tell them
// apart, the calls are not used and `out.refused_groups` says so. A call after a loss, or after the
// boot's clock broke, begins a sequence of its own. The offset that one group has shown between two
// boots helps to match the next. Messages without a number are not matched.
void MatchByOrder(const FleetInput& input, const FleetOptions& options, const PieceTable& pieces,
                  const KnownOffset& known, FleetMoments& out);

}  // namespace proftrace
