#pragma once

#include <stdint.h>

#include "userspace/agent/cupti.h"
#include "userspace/agent/ring_writer.h"

namespace proftrace::agent {

// Converts CUPTI's times to CLOCK_MONOTONIC. Makes CUPTI use that clock; where CUPTI cannot or does
// not, measures at each look how far CUPTI's clock is ahead of CLOCK_MONOTONIC.
class Clock {
 public:
  // Begins to follow CUPTI's clock. Must be called before any kind of activity is enabled.
  void Begin(const Cupti* cupti);
  // Gives CUPTI its own clock again, CLOCK_REALTIME (documentation of
  // cuptiActivityRegisterTimestampCallback): there is no call that takes a callback out. If another
  // user has replaced our callback, leaves that in place.
  void End();

  // Reads both clocks and reports them to the reader. Returns false if CUPTI has asked us for the
  // time and asks somebody else now: the times that it records from then on mean nothing to us.
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
