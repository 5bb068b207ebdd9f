// Finds where a boot's clock stood still or jumped: by its own snapshots, and by the collectives
// that it shares with other boots.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_input.h"
#include "userspace/fleet_clock/fleet_moments.h"

namespace proftrace {

// A change of a boot's clocks between two of its snapshots.
struct SnapshotChange {
  enum class Kind : uint8_t {
    kSuspend,       // BOOTTIME gained on MONOTONIC, which stands still in a suspend (kernel,
                    // timekeeping_inject_sleeptime)
    kRealtimeStep,  // REALTIME gained otherwise: NTP slews it and MONOTONIC alike, so it was set
  };
  Kind kind = Kind::kSuspend;
  uint32_t boot = 0;
  int64_t after_ns = 0;
  int64_t before_ns = 0;
  int64_t amount_ns = 0;
};

std::vector<SnapshotChange> ChangesBySnapshots(const FleetInput& input);

// A jump of one boot's clock against the clocks of others that left the same collectives.
struct ClockJump {
  ClockBreak at;
  int64_t amount_ns = 0;  // above 0: the local clock went forward
  size_t witnesses = 0;   // how many pieces of other clocks show the jump at this place
};

// Returns the greatest jump of `boot` between two local times, of `least_ns` at least. The result's
// `at` lies between the ends of two collectives, the last one before the jump and the first one
// after it.
std::optional<ClockJump> FindJump(const FleetMoments& moments, const PieceTable& table,
                                  uint32_t boot, int64_t after_ns, int64_t before_ns,
                                  int64_t least_ns);

}  // namespace proftrace
