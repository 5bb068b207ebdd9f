// The time stamp counter as CLOCK_MONOTONIC.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <deque>

namespace proftrace {

// Checks that the kernel itself keeps time by the counter, which then runs at one rate on all
// processors and through all their sleep states; else kHostUnfit with what it uses.
absl::Status CheckTimeStampCounter();

// Converts by straight lines between moments at which both clocks were read: times keep the order
// of their counters, and follow the kernel's corrections of CLOCK_MONOTONIC.
class TscClock {
 public:
  TscClock();

  // Reads both clocks. Between two readings a time is as exact as these are (error_ns()).
  void Advance();
  // Counters up to this one can be converted.
  uint64_t now() const { return points_.back().counter; }
  int64_t ToNs(uint64_t counter) const;
  // Returns the counter so much later than now().
  uint64_t CounterAfter(int64_t ns) const;
  // Returns the widest that any reading of the two clocks was apart, halved.
  int64_t error_ns() const { return error_ns_; }

 private:
  // Both clocks at one moment.
  struct Point {
    uint64_t counter = 0;
    int64_t time_ns = 0;
    double ns_per_count = 0;  // up to the next point; of the last one: of the line before it
  };
  Point Read();

  std::deque<Point> points_;  // two at least, ascending
  int64_t error_ns_ = 0;
};

}  // namespace proftrace
