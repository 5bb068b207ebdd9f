// Where the times of traces in Chrome's format begin. Viewers read the times, in microseconds, into
// doubles, which would not hold times since 1970 exactly.
#pragma once

#include <cstdint>

namespace proftrace {

// Returns the last midnight (UTC) that is not after the instant, both in nanoseconds since 1970.
inline int64_t MidnightBefore(int64_t unix_ns) {
  constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;
  const int64_t rest = unix_ns % kDayNs;
  return unix_ns - (rest < 0 ? rest + kDayNs : rest);
}

}  // namespace proftrace
