#include "exporters/traces/open_slices.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "exporters/sinks/text_writer.h"

namespace proftrace {
namespace {

// Returns the double that a reader gets for this many nanoseconds in microseconds, such as
// "123.456".
double ReadMicroseconds(int64_t ns) {
  constexpr int64_t kExact = int64_t{1} << std::numeric_limits<double>::digits;
  // Both are exact, so it is rounded once.
  if (ns <= kExact) return static_cast<double>(ns) / 1000.0;
  char text[kMaxNumberBytes + 1];
  *PutMicroseconds(text, ns) = '\0';
  return std::strtod(text, nullptr);
}

// Returns the smallest step in nanoseconds that a double of this size can show.
int64_t StepNs(double us) {
  const double next = std::nextafter(us, std::numeric_limits<double>::infinity());
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil((next - us) * 1000.0)));
}

}  // namespace

void OpenSlices::CloseUntil(int64_t ts_ns) {
  for (; !open_.empty() && open_.back().end_ns <= ts_ns; open_.pop_back()) {
    closed_us_ = std::max(closed_us_, open_.back().end_us);
  }
}

std::optional<OpenSlices::Slice> OpenSlices::Open(int64_t ts_ns, int64_t end_ns) {
  CloseUntil(ts_ns);
  if (!open_.empty() && end_ns > open_.back().end_ns) return std::nullopt;
  Slice slice{open_.empty() ? ts_ns : std::max(ts_ns, open_.back().ts_ns), 0};
  double start_us = ReadMicroseconds(slice.ts_ns);
  while (start_us < closed_us_) {
    slice.ts_ns += StepNs(start_us);
    start_us = ReadMicroseconds(slice.ts_ns);
  }
  slice.duration_ns = std::max<int64_t>(0, end_ns - slice.ts_ns);
  double end_us = start_us + ReadMicroseconds(slice.duration_ns);
  if (!open_.empty() && end_us > open_.back().end_us) {
    const double limit_us = open_.back().end_us;
    const int64_t step_ns = StepNs(limit_us);
    while (end_us > limit_us && slice.duration_ns > 0) {
      slice.duration_ns = std::max<int64_t>(0, slice.duration_ns - step_ns);
      end_us = start_us + ReadMicroseconds(slice.duration_ns);
    }
    while (end_us > limit_us && slice.ts_ns > 0) {
      slice.ts_ns = std::max<int64_t>(0, slice.ts_ns - step_ns);
      end_us = start_us = ReadMicroseconds(slice.ts_ns);
    }
  }
  open_.push_back({slice.ts_ns, end_ns, end_us});
  return slice;
}

}  // namespace proftrace
