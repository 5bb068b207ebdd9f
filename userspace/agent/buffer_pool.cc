#include "userspace/agent/buffer_pool.h"

#include "userspace/agent/system.h"

namespace proftrace::agent {
namespace {

uint32_t FirstOf(uint64_t head) { return static_cast<uint32_t>(head); }

uint64_t Changed(uint64_t head, uint32_t first) { return ((head >> 32) + 1) << 32 | first; }

}  // namespace

bool BufferPool::Open() {
  if (memory_ != nullptr) return true;
  memory_ = static_cast<uint8_t*>(MapPrivate(kBuffers * kBufferBytes));
  if (memory_ == nullptr) return false;
  for (uint32_t index = kBuffers; index > 0; --index) Push(&free_, index);
  return true;
}

void BufferPool::SetNeverRefuse(bool never_refuse) { never_refuse_ = never_refuse; }

uint8_t* BufferPool::Request() {
  uint32_t index = Pop(&free_);
  if (index == kNone) {
    __atomic_fetch_add(&refused_, 1, __ATOMIC_RELAXED);
    if (!never_refuse_) return nullptr;
    index = Pop(&completed_);
    if (index == kNone) return static_cast<uint8_t*>(MapPrivate(kBufferBytes));
  }
  return memory_ + (index - 1) * kBufferBytes;
}

void BufferPool::Complete(uint8_t* buffer, size_t valid_bytes) {
  const uint32_t index = IndexOf(buffer);
  if (index == kNone) {
    if (buffer != nullptr) Unmap(buffer, kBufferBytes);
    return;
  }
  valid_bytes_[index - 1] = valid_bytes < kBufferBytes ? valid_bytes : kBufferBytes;
  Push(&completed_, index);
}

BufferPool::Completed BufferPool::TakeCompleted() {
  if (ordered_ == kNone) {
    for (uint32_t index = TakeAll(&completed_); index != kNone;) {
      const uint32_t older = next_[index - 1];
      next_[index - 1] = ordered_;
      ordered_ = index;
      index = older;
    }
  }
  if (ordered_ == kNone) return Completed{};
  const uint32_t index = ordered_;
  ordered_ = next_[index - 1];
  return Completed{memory_ + (index - 1) * kBufferBytes, valid_bytes_[index - 1]};
}

void BufferPool::Recycle(uint8_t* buffer) {
  const uint32_t index = IndexOf(buffer);
  if (index != kNone) Push(&free_, index);
}

void BufferPool::GiveBackUnused() {
  // The buffers are taken out meanwhile, so that none is handed out as its pages go.
  uint32_t index = TakeAll(&free_);
  while (index != kNone) {
    const uint32_t next = next_[index - 1];
    GiveBack(memory_ + (index - 1) * kBufferBytes, kBufferBytes);
    Push(&free_, index);
    index = next;
  }
}

void BufferPool::Push(Head* head, uint32_t index) {
  Head before = __atomic_load_n(head, __ATOMIC_RELAXED);
  do {
    __atomic_store_n(&next_[index - 1], FirstOf(before), __ATOMIC_RELAXED);
  } while (!__atomic_compare_exchange_n(head, &before, Changed(before, index), true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

uint32_t BufferPool::Pop(Head* head) {
  Head before = __atomic_load_n(head, __ATOMIC_ACQUIRE);
  while (FirstOf(before) != kNone) {
    // Another may have popped it meanwhile: then this is not used, as the count differs.
    const uint32_t next = __atomic_load_n(&next_[FirstOf(before) - 1], __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(head, &before, Changed(before, next), true, __ATOMIC_ACQUIRE,
                                    __ATOMIC_ACQUIRE)) {
      return FirstOf(before);
    }
  }
  return kNone;
}

uint32_t BufferPool::TakeAll(Head* head) {
  Head before = __atomic_load_n(head, __ATOMIC_ACQUIRE);
  while (FirstOf(before) != kNone) {
    if (__atomic_compare_exchange_n(head, &before, Changed(before, kNone), true, __ATOMIC_ACQUIRE,
                                    __ATOMIC_ACQUIRE)) {
      return FirstOf(before);
    }
  }
  return kNone;
}

uint32_t BufferPool::IndexOf(const uint8_t* buffer) const {
  const uint8_t* memory = memory_;
  if (memory == nullptr || buffer < memory || buffer >= memory + kBuffers * kBufferBytes) {
    return kNone;
  }
  return static_cast<uint32_t>((buffer - memory) / kBufferBytes) + 1;
}

}  // namespace proftrace::agent
