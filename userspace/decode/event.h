// Decoded events, which are checked, own their data and have their label looked up. The code of
// merge/ works on events alone, without bytes of records and without the kernel's structures.
#pragma once

#include <cstdint>

#include "userspace/model/ids.h"
#include "userspace/model/operator_inputs.h"
#include "userspace/model/python_stack.h"
#include "userspace/model/script_place.h"

namespace proftrace {

enum class EventType : uint8_t {
  kBegin,  // a call was entered; `label`, `site`; `value`: its sequence number + 1, 0 = none;
           // `object`: how many bytes it copies, sets or allocates, 0 = not told
  kEnd,    // a call of `site` is about to return
  kCatch,  // a C++ exception was caught: frames at or below `sp` are gone
  kAnnotationBegin,   // `label`
  kAnnotationHandle,  // the annotation just begun on this thread is known as `value`
  kAnnotationGuard,   // it also ends when the guard known as `value` does
  kAnnotationEnd,     // the annotation known as `value` is over (0 = the thread's last one)
  kLoss,              // this thread lost `value` records before this one
  kGap,               // every thread lost an unknown number of records before this one
  kExec,              // the process runs another program now
  kGuardBegin,        // a row that is known as `value` until its end, on whatever thread
  kGuardEnd,          // `value`; `unwound` = by an exception
  kWorkTitle,         // a call makes the work `value`, whose row begins later on whatever thread
  kFrameBegin,        // a frame of TorchScript's interpreter at `value`, with code `object`
  kFrameEnd,          // the frame at `value` with code `object`
  kThreadExit,        // `value` != 0: the process has no thread left
  kAllocation,        // of CPU memory: the block at `object`, `value` bytes
  kFree,              // of CPU memory: the block at `object`
  kDeviceTotals,      // of the next event of this thread: `value` allocated, `object` reserved
  kDeviceMemory,      // the block at `object`, `value` bytes (signed); `label`: DeviceLabel()
  kOutOfMemory,       // `value` bytes were asked for; `label`: DeviceLabel()
  kSequence,  // the row just begun at `sp` has sequence number `value` - 1; of a node: made by the
              // thread that torch numbers `object`
  kThreadNumber,  // torch's number of this thread is `value`
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
  uint64_t object = 0;
  InputsId inputs = kNoInputs;  // only of a begin
  StackId stack = kNoStack;     // of its thread
  ScriptId script = kNoScript;  // only of a begin
  uint16_t site = 0;
  EventType type = EventType::kBegin;
  bool outside_window = false;  // before the process's probes were all live
  bool unwound = false;
};

// Returns a device in an event's `label`.
constexpr EventLabel DeviceLabel(uint8_t type, int8_t index) {
  return static_cast<EventLabel>(type) | static_cast<EventLabel>(static_cast<uint8_t>(index)) << 8;
}
constexpr uint8_t DeviceType(EventLabel device) { return static_cast<uint8_t>(device); }
constexpr int8_t DeviceIndex(EventLabel device) { return static_cast<int8_t>(device >> 8); }

// Returns whether stack pointer `a` is below (deeper than) `b`. Both are cut to 35 bits, so this is
// right for pointers within 16 GiB of each other.
constexpr bool StackIsBelow(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

}  // namespace proftrace
