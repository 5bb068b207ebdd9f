// Says which collectives bind no clock, or bind it without some of their ranks.
#pragma once

#include <string>
#include <vector>

#include "userspace/fleet_clock/fleet_input.h"
#include "userspace/fleet_clock/fleet_moments.h"

namespace proftrace {

// Returns sentences, by group: how many of its collectives are only listed or lack a rank, and why.
std::vector<std::string> SayWhatDoesNotBind(const FleetInput& input, const FleetMoments& moments);

}  // namespace proftrace
