#include "userspace/agent/clock.h"

#include "userspace/agent/system.h"

namespace proftrace::agent {
namespace {

// How often a look reads CUPTI's clock, each time between two readings of CLOCK_MONOTONIC. The
// reading with the least time between those two counts.
constexpr int kLooks = 5;
// If CUPTI uses our clock, it is never away from CLOCK_MONOTONIC by more than this, which allows
// for rounding.
constexpr uint64_t kToleranceNs = 1'000'000;

uint64_t MonotonicTimestamp() { return MonotonicNs(); }
uint64_t DefaultTimestamp() { return RealtimeNs(); }

}  // namespace

void Clock::Begin(const Cupti* cupti) {
  cupti_ = cupti;
  ahead_ns_ = 0;
  has_looked_ = is_ours_ = is_replaced_ = false;
  is_registered_ = cupti->ActivityRegisterTimestampCallback != nullptr &&
                   cupti->ActivityRegisterTimestampCallback(MonotonicTimestamp) == kCuptiSuccess;
}

void Clock::End() {
  if (is_registered_ && !is_replaced_) {
    cupti_->ActivityRegisterTimestampCallback(DefaultTimestamp);
  }
  is_registered_ = is_ours_ = false;
}

bool Clock::Look(int pid, RingWriter* ring) {
  abi::pt_gpu_clock_record record{};
  uint64_t best_gap = UINT64_MAX;
  for (int i = 0; i < kLooks; ++i) {
    uint64_t cupti_ns = 0;
    const uint64_t before = MonotonicNs();
    if (cupti_->GetTimestamp(&cupti_ns) != kCuptiSuccess) return !is_replaced_;
    const uint64_t after = MonotonicNs();
    if (after - before >= best_gap) continue;
    best_gap = after - before;
    record.head.time_ns = before;
    record.cupti_ns = cupti_ns;
    record.after_ns = after;
  }
  const uint64_t middle = record.head.time_ns + best_gap / 2;
  const bool is_inside =
      record.cupti_ns >= record.head.time_ns && record.cupti_ns <= record.after_ns;
  if (!has_looked_) {
    // CUPTI may have accepted the callback and still use a clock of its own.
    has_looked_ = true;
    is_ours_ = is_registered_ && is_inside;
  }
  if (is_ours_) {
    is_replaced_ = is_replaced_ || record.cupti_ns + kToleranceNs < record.head.time_ns ||
                   record.cupti_ns > record.after_ns + kToleranceNs;
    if (is_replaced_) return false;
  } else {
    ahead_ns_ = is_inside ? 0 : record.cupti_ns - middle;
  }
  record.head.pid = static_cast<uint32_t>(pid);
  ring->Write(&record.head, sizeof(record), abi::PT_GPU_CLOCK);
  return true;
}

}  // namespace proftrace::agent
