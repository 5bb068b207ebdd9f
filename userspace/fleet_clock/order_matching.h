// Collectives that have no number, matched by their order: torch before 2.2 has none, and gloo's
// rows have none at all.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_input.h"
#include "userspace/fleet_clock/fleet_moments.h"
#include "userspace/fleet_clock/ntp_statements.h"

namespace proftrace {

// What is known of the second piece's clock against the first's before anything is matched;
// nullopt: nothing.
using KnownOffset = std::function<std::optional<OffsetRange>(uint32_t, uint32_t)>;

// Appends the collectives without a number. Two ranks' calls of a group are laid over each other
// with a shift, at least half of the shorter sequence: they fit where operation, size and root
// agree in all pairs, and one offset and one rate of the clocks let nobody leave before all have
// entered. Exactly one shift that fits is the right one. Where several fit - the job repeats more
// evenly than its transfers take - those calls are not used, and that is said in
// `out.refused_groups`. A call after a loss, or after the
// boot's clock broke, begins a sequence of its own. What one group has told
// of two boots helps with the next. Messages without a number are not matched.
void MatchByOrder(const FleetInput& input, const FleetOptions& options, const PieceTable& pieces,
                  const KnownOffset& known, FleetMoments& out);

}  // namespace proftrace
