// System calls and io_uring's requests by name: what `report --by-syscall` shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

struct CallTimes {
  std::string name;  // SystemEventName()
  uint64_t calls = 0;
  uint64_t errors = 0;
  // Calls that had not returned when the recording ended; their time so far counts.
  uint64_t unfinished = 0;
  int64_t total_ns = 0;
  int64_t p99_ns = 0;  // 99 % of the calls took no longer
  int64_t max_ns = 0;
  int64_t off_cpu_ns = 0;  // part of total_ns; 0 where the scheduler was not recorded
  int64_t bytes = 0;       // moved by calls that read or write

  int64_t mean_ns() const { return calls == 0 ? 0 : total_ns / static_cast<int64_t>(calls); }
};

// Sums up calls, the longest total time first; ties by name. Memory: 8 bytes for each call.
std::vector<CallTimes> SumCallTimes(const Timeline& timeline);

}  // namespace proftrace
