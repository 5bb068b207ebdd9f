// What NTP states about clocks: |REALTIME - UTC| <= maxerror. A statement is no proof, because it
// holds only as far as NTP's servers and network paths are right. So it decides only where nothing
// else does, and results name it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "userspace/fleet_clock/fleet_input.h"

namespace proftrace {

// The range of the number that must be added to one clock's times to get another's.
struct OffsetRange {
  int64_t low_ns = 0;
  int64_t high_ns = 0;
};

// Returns the offset from the first boot to the second, by all their snapshots. nullopt: one of the
// two has no snapshot with a synchronised clock.
std::optional<OffsetRange> OffsetByNtp(const FleetBoot& first, const FleetBoot& second);

// Whether NTP states anything in a snapshot.
bool IsSynchronised(const ClockSnapshot& snapshot);

// The result of comparing several boots' statements about the same offset. `agreed`: the range that
// most of them have in common. `odd`: the indices of the statements that do not contain that range.
struct NtpAgreement {
  std::optional<OffsetRange> agreed;
  std::vector<size_t> odd;
};
NtpAgreement AgreeOnUtc(const std::vector<OffsetRange>& statements);

}  // namespace proftrace
