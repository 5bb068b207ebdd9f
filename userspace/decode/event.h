// A decoded event: owned, checked, with its label looked up. What merge/ works on; no bytes, no
// kernel.
#pragma once

#include <cstdint>

#include "userspace/model/ids.h"

namespace proftrace {

enum class EventType : uint8_t {
  kBegin,             // a call was entered; `label`, `site`
  kEnd,               // a call of `site` is about to return
  kCatch,             // a C++ exception was caught: frames at or below `sp` are gone
  kAnnotationBegin,   // `label`
  kAnnotationHandle,  // the annotation just begun on this thread is known as `value`
  kAnnotationEnd,     // the annotation known as `value` is over (0 = the thread's last one)
  kLoss,              // this thread lost `value` records before this one
  kGap,               // every thread lost an unknown number of records before this one
  kExec,              // the process runs another program now
  kThreadExit,        // `value` != 0: the process has no thread left
};

// An index into Decoder::labels(), or one of these.
using EventLabel = uint32_t;
inline constexpr EventLabel kHiddenLabel =
    0xffffffff;  // torch shows no row for it: nests, but is no span
inline constexpr EventLabel kUnnamedLabel = 0xfffffffe;  // its name could not be found

struct Event {
  int64_t time_ns = 0;  // CLOCK_MONOTONIC
  Pid pid{};
  Tid tid{};
  uint32_t sp = 0;  // stack pointer >> 3, low 32 bits: compare with StackIsBelow()
  EventLabel label = kHiddenLabel;
  uint64_t value = 0;
  uint16_t site = 0;
  EventType type = EventType::kBegin;
  bool outside_window = false;  // before the process's probes were all live
};

// Whether stack pointer `a` is below (deeper than) `b`. Both are cut to 35 bits: right within 16
// GiB of each other.
constexpr bool StackIsBelow(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

}  // namespace proftrace
