// Converts values of the time stamp counter to times of CLOCK_MONOTONIC.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <deque>

namespace proftrace {

// Checks that the kernel itself keeps time by the counter, because then the counter runs at one
// rate on all processors and in all their sleep states. Fails with kHostUnfit, and names the clock
// source that the kernel uses instead.
absl::Status CheckTimeStampCounter();

// Converts by straight lines between moments at which both clocks were read. Converted times keep
// the order of their counters, and follow the kernel's corrections of CLOCK_MONOTONIC.
class TscClock {
 public:
  TscClock();

  // Reads both clocks. Between two readings, a converted time is as exact as the readings
  // (error_ns()).
  void Advance();
  // Returns the highest counter that can be converted.
  uint64_t now() const { return points_.back().counter; }
  int64_t ToNs(uint64_t counter) const;
  // Returns the counter that is reached `ns` nanoseconds after now().
  uint64_t CounterAfter(int64_t ns) const;
  // Returns the largest error of a reading so far: half of the time that it took to read both
  // clocks.
  int64_t error_ns() const { return error_ns_; }

 private:
  // The values of both clocks at one moment.
  struct Point {
    uint64_t counter = 0;
    int64_t time_ns = 0;
    double ns_per_count = 0;  // up to the next point; the last point has that of the one before
  };
  Point Read();

  std::deque<Point> points_;  // two at least, ascending
  int64_t error_ns_ = 0;
};

}  // namespace proftrace
