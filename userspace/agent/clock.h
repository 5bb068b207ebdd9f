#pragma once

#include <stdint.h>

#include "userspace/agent/cupti.h"
#include "userspace/agent/ring_writer.h"

namespace proftrace::agent {

// CUPTI's times as CLOCK_MONOTONIC: by making CUPTI use that clock, or, where it cannot or does not
// want to, by how far its own is away from it, which is looked at again and again.
class Clock {
 public:
  // Before any kind of activity is enabled.
  void Begin(const Cupti* cupti);
  // CUPTI has its own clock again: CLOCK_REALTIME (documentation of
  // cuptiActivityRegisterTimestampCallback). There is no call that takes a callback out.
  void End();

  // Looks at both clocks, and tells the reader.
  void Look(int pid, RingWriter* ring);

  uint64_t ToMonotonic(uint64_t cupti_ns) const { return cupti_ns == 0 ? 0 : cupti_ns - ahead_ns_; }

 private:
  const Cupti* cupti_ = nullptr;
  bool is_ours_ = false;   // CUPTI asks us for the time
  uint64_t ahead_ns_ = 0;  // CUPTI's clock minus CLOCK_MONOTONIC, modulo 2^64
};

}  // namespace proftrace::agent
