// Sums of the memory of spans.
#pragma once

#include "userspace/base/saturating.h"
#include "userspace/model/memory_event.h"

namespace proftrace {

// Adds the self bytes of `more`.
inline void AddSelf(const SpanMemory& more, SpanMemory* memory) {
  memory->self_cpu_bytes = SaturatingSum(memory->self_cpu_bytes, more.self_cpu_bytes);
  memory->self_device_bytes = SaturatingSum(memory->self_device_bytes, more.self_device_bytes);
}

// Adds all bytes of `more`.
inline void AddAll(const SpanMemory& more, SpanMemory* memory) {
  AddSelf(more, memory);
  memory->cpu_bytes = SaturatingSum(memory->cpu_bytes, more.cpu_bytes);
  memory->device_bytes = SaturatingSum(memory->device_bytes, more.device_bytes);
}

}  // namespace proftrace
