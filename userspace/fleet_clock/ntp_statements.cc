#include "userspace/fleet_clock/ntp_statements.h"

#include <algorithm>
#include <utility>

namespace proftrace {
namespace {

// Returns what must be added to the local clock to get UTC, by all snapshots.
std::optional<OffsetRange> UtcOffset(const FleetBoot& boot) {
  std::optional<OffsetRange> range;
  for (const ClockSnapshot& snapshot : boot.snapshots) {
    if (!IsSynchronised(snapshot)) continue;
    const int64_t offset_ns = *snapshot.realtime_ns - snapshot.monotonic_ns;
    const int64_t error_ns = snapshot.ntp->max_error_ns + snapshot.gap_ns;
    if (!range) range = OffsetRange{offset_ns - error_ns, offset_ns + error_ns};
    range->low_ns = std::min(range->low_ns, offset_ns - error_ns);
    range->high_ns = std::max(range->high_ns, offset_ns + error_ns);
  }
  return range;
}

}  // namespace

bool IsSynchronised(const ClockSnapshot& snapshot) {
  return snapshot.realtime_ns && snapshot.ntp && snapshot.ntp->is_synchronised;
}

std::optional<OffsetRange> OffsetByNtp(const FleetBoot& first, const FleetBoot& second) {
  const auto a = UtcOffset(first);
  const auto b = UtcOffset(second);
  if (!a || !b) return std::nullopt;
  return OffsetRange{b->low_ns - a->high_ns, b->high_ns - a->low_ns};
}

NtpAgreement AgreeOnUtc(const std::vector<OffsetRange>& statements) {
  NtpAgreement out;
  if (statements.empty()) return out;
  // Looks for the place that most statements cover. It begins where one of them begins.
  std::vector<std::pair<int64_t, int>> ends;
  for (const OffsetRange& statement : statements) {
    ends.push_back({statement.low_ns, -1});  // begins sort before ends at the same place
    ends.push_back({statement.high_ns, 1});
  }
  std::sort(ends.begin(), ends.end());
  int around = 0;
  int most = 0;
  int64_t place_ns = 0;
  for (const auto& [at_ns, end] : ends) {
    around -= end;
    if (around <= most) continue;
    most = around;
    place_ns = at_ns;
  }
  OffsetRange agreed = {INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < statements.size(); ++i) {
    if (statements[i].low_ns > place_ns || statements[i].high_ns < place_ns) {
      out.odd.push_back(i);
      continue;
    }
    agreed.low_ns = std::max(agreed.low_ns, statements[i].low_ns);
    agreed.high_ns = std::min(agreed.high_ns, statements[i].high_ns);
  }
  out.agreed = agreed;
  return out;
}

}  // namespace proftrace
