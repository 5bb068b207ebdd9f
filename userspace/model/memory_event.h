// One allocation, free or failed allocation (--profile-memory): torch's [memory] and [OutOfMemory].
#pragma once

#include <cstdint>
#include <string_view>

#include "userspace/model/ids.h"
#include "userspace/model/python_stack.h"

namespace proftrace {

enum class MemoryEventKind : uint8_t {
  kUsage = 0,        // an allocation, or a free
  kOutOfMemory = 1,  // an allocation that failed
};

struct MemoryEvent {
  int64_t time_ns = 0;          // CLOCK_MONOTONIC
  uint64_t address = 0;         // of the block; 0 for kOutOfMemory
  int64_t bytes = 0;            // kUsage: > 0 allocated, < 0 freed; kOutOfMemory: asked for
  int64_t total_allocated = 0;  // after this event; only where `total_known`; see MemoryTracker
  int64_t total_reserved = 0;   // by the device's allocator; CPU: 0, as in torch
  SpanId parent = kNoSpan;      // the innermost span that was open on its thread
  ThreadIndex thread{};
  MemoryEventKind kind = MemoryEventKind::kUsage;
  uint8_t device_type = 0;  // c10::DeviceType
  int8_t device_index = 0;  // -1 = none: the CPU
  bool total_known : 1 = false;
  // Whether the event lies in a row of its thread. Where it does although `parent` is kNoSpan, that
  // row has outlived the row in which it began.
  bool is_inside : 1 = false;
  StackId stack = kNoStack;  // the Python stack, where it was read (--with-stack)

  // Return whether torch counts the memory as the CPU's or as a device's
  // (torch/autograd/profiler.py): CPU, MKLDNN and IDEEP are CPU memory; CUDA, HIP, XPU and
  // PrivateUse1 device memory; others are neither.
  bool is_cpu() const { return device_type == 0 || device_type == 2 || device_type == 5; }
  bool is_device() const {
    return device_type == 1 || device_type == 6 || device_type == 12 || device_type == 20;
  }
};
static_assert(sizeof(MemoryEvent) == 56);

// Returns the name in torch's spelling: "[memory]", "[OutOfMemory]".
constexpr std::string_view MemoryEventName(MemoryEventKind kind) {
  return kind == MemoryEventKind::kUsage ? "[memory]" : "[OutOfMemory]";
}

// Returns the name that c10::DeviceType has for the number; empty for types that torch's profiler
// does not count.
constexpr std::string_view DeviceTypeName(uint8_t device_type) {
  switch (device_type) {
    case 0:
      return "CPU";
    case 1:
      return "CUDA";
    case 2:
      return "MKLDNN";
    case 5:
      return "IDEEP";
    case 6:
      return "HIP";
    case 12:
      return "XPU";
    case 20:
      return "PRIVATEUSEONE";
    default:
      return "";
  }
}

// Counts of allocations and frees for which there is no complete event.
struct MemorySummary {
  uint64_t empty_blocks = 0;  // allocations of 0 bytes
  uint64_t unknown_frees =
      0;  // frees of blocks from before the window, or before a loss: their size is not known
  uint64_t reused_blocks = 0;           // allocations at an address whose free was not seen
  uint64_t untracked = 0;               // allocations that the table of live blocks had no room for
  uint64_t inconsistent_processes = 0;  // processes whose running totals became unknown
};

}  // namespace proftrace
