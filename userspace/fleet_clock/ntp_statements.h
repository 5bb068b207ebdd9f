// What NTP states of clocks: |REALTIME - UTC| <= maxerror. No proof, since it holds only as far as
// its servers and paths are right; so it decides where nothing else does, and is always named.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "userspace/fleet_clock/fleet_input.h"

namespace proftrace {

// A range of what must be added to a clock's times to get another's.
struct OffsetRange {
  int64_t low_ns = 0;
  int64_t high_ns = 0;
};

// Returns the offset from the first boot to the second, by all their snapshots. nullopt: one of
// them has none that was synchronised.
std::optional<OffsetRange> OffsetByNtp(const FleetBoot& first, const FleetBoot& second);

// Whether a snapshot states anything.
bool IsSynchronised(const ClockSnapshot& snapshot);

// Statements of several boots about one thing. `agreed`: what the most of them have in common;
// `odd`: the places of those that do not have it in them.
struct NtpAgreement {
  std::optional<OffsetRange> agreed;
  std::vector<size_t> odd;
};
NtpAgreement AgreeOnUtc(const std::vector<OffsetRange>& statements);

}  // namespace proftrace
