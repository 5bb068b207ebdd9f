// All clocks of a host, read together. A capture holds such snapshots; the common clock of many
// hosts is computed from them.
#pragma once

#include <cstdint>
#include <optional>

namespace proftrace {

// The state of the kernel's clock that adjtimex(2) returns. NTP itself promises |REALTIME - UTC| <=
// max_error_ns while the clock is synchronised (RFC 5905, root distance; STA_UNSYNC is not set).
struct NtpState {
  bool is_synchronised = false;
  int64_t max_error_ns = 0;
  int64_t estimated_error_ns = 0;
  int64_t offset_ns = 0;      // REALTIME is still to be slewed by this
  int64_t frequency_ppb = 0;  // the correction of the clock's rate
  uint32_t status = 0;        // STA_* of the kernel
};

// What each clock showed at `monotonic_ns`, to within half of `gap_ns`, which is how long the
// reading took. The values are the kernel's own: offsets of a time namespace are not in them.
struct ClockSnapshot {
  int64_t monotonic_ns = 0;
  std::optional<int64_t> monotonic_raw_ns;  // not slewed by NTP
  std::optional<int64_t> boottime_ns;       // goes on during a suspend
  std::optional<int64_t> realtime_ns;       // may be set at any time
  std::optional<int64_t> tai_ns;            // REALTIME without leap seconds
  std::optional<NtpState> ntp;
  int64_t gap_ns = 0;
};

}  // namespace proftrace
