#include "userspace/agent/ring_writer.h"

#include <string.h>

namespace proftrace::agent {

RingWriter::RingWriter(abi::pt_agent_page* page, uint8_t* ring, uint64_t ring_bytes)
    : page_(page), ring_(ring), mask_(ring_bytes - 1) {}

bool RingWriter::HasRoom(uint64_t bytes) const {
  const uint64_t taken = __atomic_load_n(&page_->taken, __ATOMIC_ACQUIRE);
  const uint64_t used = page_->written - taken;
  return used <= mask_ + 1 && mask_ + 1 - used >= bytes;
}

bool RingWriter::Write(abi::pt_record* record, uint32_t bytes, abi::pt_gpu_kind kind) {
  if (!HasRoom(bytes)) return false;
  record->sp = 0;
  record->site = 0;
  record->kind = static_cast<uint8_t>(kind);
  record->words = static_cast<uint8_t>(bytes / 8);
  const uint64_t written = page_->written;
  const uint64_t start = written & mask_;
  const uint64_t first = mask_ + 1 - start < bytes ? mask_ + 1 - start : bytes;
  memcpy(ring_ + start, record, first);
  memcpy(ring_, reinterpret_cast<const uint8_t*>(record) + first, bytes - first);
  __atomic_store_n(&page_->written, written + bytes, __ATOMIC_RELEASE);
  return true;
}

}  // namespace proftrace::agent
