#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi/gpu_records.h"

namespace proftrace::agent {

// Writes records into the shared ring. One thread writes; the loader reads.
class RingWriter {
 public:
  RingWriter() = default;
  // `ring_bytes` must be a power of two. Page and ring are the caller's, and must outlive the
  // writer.
  RingWriter(abi::pt_agent_page* page, uint8_t* ring, uint64_t ring_bytes);

  bool HasRoom(uint64_t bytes) const;
  // Writes a whole record, and fills in its head except time, pid and tid, which the caller has
  // set. Returns false if there is no room; then nothing of the record is visible.
  bool Write(abi::pt_record* record, uint32_t bytes, abi::pt_gpu_kind kind);

 private:
  abi::pt_agent_page* page_ = nullptr;
  uint8_t* ring_ = nullptr;
  uint64_t mask_ = 0;
};

}  // namespace proftrace::agent
