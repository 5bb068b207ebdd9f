#pragma once

#include <stdint.h>

#include "userspace/agent/cupti.h"
#include "userspace/agent/ring_writer.h"

namespace proftrace::agent {

// CUPTI's times as CLOCK_MONOTONIC: by making CUPTI use that clock, or, where it cannot or does not
// want to, by how far its own is away from it, which is looked at again and again.
class Clock {
 public:
  // Begins to follow CUPTI's clock. To be called before any kind of activity is enabled.
  void Begin(const Cupti* cupti);
  // Gives CUPTI its own clock again: CLOCK_REALTIME (documentation of
  // cuptiActivityRegisterTimestampCallback). There is no call that takes a callback out. Another
  // user's, in the place of ours, is left.
  void End();

  // Looks at both clocks, and tells the reader. False: CUPTI asked us for the time, and asks
  // somebody else now; what it records from then on has times that mean nothing to us.
  bool Look(int pid, RingWriter* ring);

  uint64_t ToMonotonic(uint64_t cupti_ns) const { return cupti_ns == 0 ? 0 : cupti_ns - ahead_ns_; }

 private:
  const Cupti* cupti_ = nullptr;
  bool is_registered_ = false;
  bool has_looked_ = false;
  bool is_ours_ = false;  // CUPTI asks us for the time, as the first look has shown
  bool is_replaced_ = false;
  uint64_t ahead_ns_ = 0;  // CUPTI's clock minus CLOCK_MONOTONIC, modulo 2^64; 0 while it is ours
};

}  // namespace proftrace::agent
