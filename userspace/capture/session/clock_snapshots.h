// Reads the clocks of this host for a recording: at its begin, while it lasts, and at its end.
#pragma once

#include <sys/timex.h>
#include <time.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "userspace/base/clock.h"
#include "userspace/model/clock_snapshot.h"

namespace proftrace {

// The time between two readings of a recording. Quartz and NTP change a clock's rate within
// minutes.
inline constexpr int64_t kClockSnapshotNs = 10'000'000'000;

// Reads each clock between two readings of MONOTONIC, and takes it to belong to the middle between
// them. Does so in a few rounds, and returns the round whose longest gap is least. `read_ns`
// returns a clock's nanoseconds.
ClockSnapshot ReadClocks(const std::function<int64_t(clockid_t)>& read_ns);

// Reads the kernel's clocks and its state of NTP.
ClockSnapshot ReadKernelClocks();

// Translates the result of a call of adjtimex(2).
NtpState NtpStateOf(const timex& state);

}  // namespace proftrace
