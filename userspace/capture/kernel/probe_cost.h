// Measures what one probe hit costs on this host: the figure behind the cost line.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>

#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/attach.h"

namespace proftrace {

// The site of the probe that is timed: no plan has so many sites.
inline constexpr uint16_t kProbeCostSite = 65535;

// Times a loop over a small function of this program (its first instruction is a push, as in
// libtorch) with and without the probe that `attach` puts there. Returns the nanoseconds of a hit,
// the median of several rounds. Takes about 20 ms. The probe is hit by a thread that is not the
// process's first. A round has at most `calls_a_round` calls, so that the ring has room for their
// records; `between_rounds` empties the ring after each round.
absl::StatusOr<double> MeasureProbeCost(
    int calls_a_round, const std::function<absl::StatusOr<LinkSet>(const ModulePlan&)>& attach,
    const std::function<void()>& between_rounds);

}  // namespace proftrace
