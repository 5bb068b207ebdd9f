// Reads the clocks of a recording, in nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>
#include <optional>

namespace proftrace {

inline int64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Reads what this process's time namespace adds to the kernel's CLOCK_MONOTONIC and
// CLOCK_MONOTONIC_RAW, or else to CLOCK_BOOTTIME (time_namespaces(7)). nullopt: the offset cannot
// be known, because the process has made a time namespace that only its children enter.
std::optional<int64_t> ReadTimeNamespaceOffsetNs(clockid_t clock = CLOCK_MONOTONIC);

// Returns the offset of CLOCK_MONOTONIC, which is read once; 0 where it is not known.
int64_t TimeNamespaceOffsetNs();

// Returns the clock of the records (bpf_ktime_get_ns), which no time namespace changes.
inline int64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC) - TimeNamespaceOffsetNs(); }

// Returns the processor time of the calling thread.
inline int64_t ThreadCpuNs() { return ClockNs(CLOCK_THREAD_CPUTIME_ID); }

// Returns the processor time of the whole process, in user mode and in the kernel.
inline int64_t ProcessCpuNs() { return ClockNs(CLOCK_PROCESS_CPUTIME_ID); }

inline double ToSeconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

// Returns what to add to CLOCK_MONOTONIC for the Unix time: reads both clocks several times and
// takes the try with the least time between the readings.
inline int64_t MonotonicToUnixNs() {
  int64_t best_gap = INT64_MAX;
  int64_t offset = 0;
  for (int i = 0; i < 5; ++i) {
    const int64_t before = MonotonicNs();
    const int64_t unix_ns = ClockNs(CLOCK_REALTIME);
    const int64_t after = MonotonicNs();
    if (after - before >= best_gap) continue;
    best_gap = after - before;
    offset = unix_ns - (before + best_gap / 2);
  }
  return offset;
}

}  // namespace proftrace
