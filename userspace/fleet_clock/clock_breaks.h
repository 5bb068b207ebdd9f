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

// Returns by how much NTP changed the rate of the clock, in parts per billion: how much the gain of
// MONOTONIC on MONOTONIC_RAW differs between snapshots.
int64_t SlewedPpb(const FleetBoot& boot);

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

// A clock that goes evenly, but at a rate against others' that no clock has. torch.profiler puts a
// trace on the wall clock by a line through the trace's two ends: where the wall clock was set in
// between, that stretches the whole trace.
struct ClockStretch {
  uint32_t boot = 0;
  int64_t from_ns = 0;
  int64_t to_ns = 0;
  int64_t gain_ns = 0;   // what the boot's clock gains on the others' from `from_ns` to `to_ns`
  size_t witnesses = 0;  // how many pieces of other clocks show it
};

// Returns how `boot` is stretched between two local times; nullopt: it does not go evenly there, or
// at a rate of `max_rate_ppb` at most. `fewest_ends`: how many ends must lie in the middle.
std::optional<ClockStretch> FindStretch(const FleetMoments& moments, const PieceTable& table,
                                        uint32_t boot, int64_t after_ns, int64_t before_ns,
                                        int64_t max_rate_ppb, size_t fewest_ends);

}  // namespace proftrace
