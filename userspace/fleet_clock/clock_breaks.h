// Finds where a boot's clock stood still or jumped: by its own snapshots, and by what its
// collectives tell.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_input.h"
#include "userspace/fleet_clock/fleet_moments.h"

namespace proftrace {

// The change that two snapshots of a boot tell of between them.
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

// A jump of one boot's clock against others that left the same collectives.
struct ClockJump {
  ClockBreak at;
  int64_t amount_ns = 0;  // of the local clock: above 0, it went forward
  size_t witnesses = 0;   // pieces of other clocks against which it jumped just there
};

// Returns the greatest jump of `boot` between two local times, of `least_ns` at least. It lies
// between the ends of two collectives, the one that has the jump before it and the one that has it
// behind it.
std::optional<ClockJump> FindJump(const FleetMoments& moments, const PieceTable& table,
                                  uint32_t boot, int64_t after_ns, int64_t before_ns,
                                  int64_t least_ns);

}  // namespace proftrace
