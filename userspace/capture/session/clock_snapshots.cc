#include "userspace/capture/session/clock_snapshots.h"

#include <algorithm>
#include <array>
#include <limits>

namespace proftrace {
namespace {

constexpr int kClockReadings = 5;

// Returns a clock's time without the offset of our time namespace, as the kernel's programs stamp
// records.
int64_t KernelClockNs(clockid_t clock) {
  static const int64_t boottime_offset_ns = ReadTimeNamespaceOffsetNs(CLOCK_BOOTTIME).value_or(0);
  if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW) {
    return ClockNs(clock) - TimeNamespaceOffsetNs();
  }
  return ClockNs(clock) - (clock == CLOCK_BOOTTIME ? boottime_offset_ns : 0);
}

}  // namespace

ClockSnapshot ReadClocks(const std::function<int64_t(clockid_t)>& read_ns) {
  constexpr std::array kClocks = {CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_REALTIME, CLOCK_TAI};
  ClockSnapshot best;
  best.gap_ns = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kClockReadings; ++i) {
    std::array<int64_t, kClocks.size()> leads_ns{};  // how far each clock is ahead of MONOTONIC
    int64_t gap_ns = 0;
    int64_t before_ns = read_ns(CLOCK_MONOTONIC);
    for (size_t clock = 0; clock < kClocks.size(); ++clock) {
      const int64_t ns = read_ns(kClocks[clock]);
      const int64_t after_ns = read_ns(CLOCK_MONOTONIC);
      leads_ns[clock] = ns - (before_ns + (after_ns - before_ns) / 2);
      gap_ns = std::max(gap_ns, after_ns - before_ns + 1);  // plus one, as the middle is rounded
      before_ns = after_ns;
    }
    if (gap_ns >= best.gap_ns) continue;
    best.gap_ns = gap_ns;
    best.monotonic_ns = before_ns;
    best.monotonic_raw_ns = before_ns + leads_ns[0];
    best.boottime_ns = before_ns + leads_ns[1];
    best.realtime_ns = before_ns + leads_ns[2];
    best.tai_ns = before_ns + leads_ns[3];
  }
  return best;
}

ClockSnapshot ReadKernelClocks() {
  ClockSnapshot snapshot = ReadClocks(KernelClockNs);
  // The call sets nothing, so it needs no rights; some sandboxes refuse it all the same.
  timex state{};
  if (adjtimex(&state) >= 0) snapshot.ntp = NtpStateOf(state);
  return snapshot;
}

NtpState NtpStateOf(const timex& state) {
  constexpr int64_t kNsPerUs = 1000;
  NtpState ntp;
  ntp.is_synchronised = (state.status & STA_UNSYNC) == 0;
  ntp.max_error_ns = int64_t{state.maxerror} * kNsPerUs;
  ntp.estimated_error_ns = int64_t{state.esterror} * kNsPerUs;
  ntp.offset_ns = (state.status & STA_NANO) != 0 ? state.offset : state.offset * kNsPerUs;
  // The frequency is in parts per million, with a fraction of 16 bits.
  ntp.frequency_ppb = int64_t{state.freq} * 1000 / 65536;
  ntp.status = static_cast<uint32_t>(state.status);
  return ntp;
}

}  // namespace proftrace
