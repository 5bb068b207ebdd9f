#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi/gpu_records.h"

namespace proftrace::agent {

// Writes records into the shared ring. One thread writes; the loader reads.
class RingWriter {
 public:
  RingWriter() = default;
  // `ring_bytes`: a power of two. Both are the caller's and stay until the last call.
  RingWriter(abi::pt_agent_page* page, uint8_t* ring, uint64_t ring_bytes);

  bool HasRoom(uint64_t bytes) const;
  // Writes all of a record, whose head is not filled in yet but for time, pid and tid. False when
  // it has no room: nothing of it is visible then.
  bool Write(abi::pt_record* record, uint32_t bytes, abi::pt_gpu_kind kind);

 private:
  abi::pt_agent_page* page_ = nullptr;
  uint8_t* ring_ = nullptr;
  uint64_t mask_ = 0;
};

}  // namespace proftrace::agent
