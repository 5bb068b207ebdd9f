// The clocks of this host, read for a recording: at its begin, while it lasts, at its end.
#pragma once

#include <sys/timex.h>
#include <time.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "userspace/base/clock.h"
#include "userspace/model/clock_snapshot.h"

namespace proftrace {

// How often a recording reads them. Quartz and NTP change a clock's rate within minutes.
inline constexpr int64_t kClockSnapshotNs = 10'000'000'000;

// Reads each clock between two readings of MONOTONIC, to whose middle it belongs; of a few such
// rounds the one whose longest gap is least. `read_ns` gives a clock's nanoseconds.
ClockSnapshot ReadClocks(const std::function<int64_t(clockid_t)>& read_ns);

// Reads the kernel's clocks, and what it knows of NTP.
ClockSnapshot ReadKernelClocks();

// Translates what a call of adjtimex(2) has left.
NtpState NtpStateOf(const timex& state);

}  // namespace proftrace
