// All clocks of a host, read together: what a capture has of its host's time, and what the common
// clock of many hosts starts from.
#pragma once

#include <cstdint>
#include <optional>

namespace proftrace {

// What adjtimex(2) tells. NTP's own statement is |REALTIME - UTC| <= max_error_ns while the clock
// is synchronised (RFC 5905, root distance; STA_UNSYNC is not set).
struct NtpState {
  bool is_synchronised = false;
  int64_t max_error_ns = 0;
  int64_t estimated_error_ns = 0;
  int64_t offset_ns = 0;      // that REALTIME is still to be slewed by
  int64_t frequency_ppb = 0;  // by which the rate is corrected
  uint32_t status = 0;        // STA_* of the kernel
};

// What each clock showed at `monotonic_ns`, to within half of `gap_ns`, which is how long the
// reading took. As the kernel has them: without what a time namespace adds.
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
