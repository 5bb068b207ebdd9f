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
  __atomic_fetch_add(&calls_, 1, __ATOMIC_RELEASE);
  uint32_t index = Pop(&free_);
  if (index == kNone) {
    __atomic_fetch_add(&refused_, 1, __ATOMIC_RELAXED);
    if (!never_refuse_) return nullptr;
    index = Pop(&completed_);
    if (index == kNone) index = MapExtra();
    if (index == kNone) return nullptr;
  }
  __atomic_fetch_add(&lent_, 1, __ATOMIC_RELEASE);
  return At(index);
}

void BufferPool::Complete(uint8_t* buffer, size_t valid_bytes) {
  const uint32_t index = TakeBack(buffer);
  if (index == kNone) return;
  valid_bytes_[index - 1] =
      static_cast<uint32_t>(valid_bytes < kBufferBytes ? valid_bytes : kBufferBytes);
  Push(&completed_, index);
}

void BufferPool::Discard(uint8_t* buffer) {
  const uint32_t index = TakeBack(buffer);
  if (index != kNone) Free(index);
}

// Takes a buffer back from CUPTI. Returns its index; kNone: the buffer is another user's, who may
// still use it.
uint32_t BufferPool::TakeBack(const uint8_t* buffer) {
  __atomic_fetch_add(&calls_, 1, __ATOMIC_RELEASE);
  const uint32_t index = IndexOf(buffer);
  if (index != kNone) {
    __atomic_fetch_sub(&lent_, 1, __ATOMIC_RELEASE);
  } else if (buffer != nullptr) {
    __atomic_fetch_add(&foreign_, 1, __ATOMIC_RELAXED);
  }
  return index;
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
  return Completed{At(index), valid_bytes_[index - 1]};
}

void BufferPool::Recycle(uint8_t* buffer) {
  const uint32_t index = IndexOf(buffer);
  if (index != kNone) Free(index);
}

void BufferPool::Free(uint32_t index) {
  if (index <= kBuffers) return Push(&free_, index);
  uint8_t* extra = At(index);
  __atomic_store_n(&extras_[index - 1 - kBuffers], static_cast<uint8_t*>(nullptr),
                   __ATOMIC_RELEASE);
  Unmap(extra, kBufferBytes);
  Push(&free_extras_, index);
}

// Maps an extra buffer. A number is reserved first, because memory without a number could not be
// told from another user's.
uint32_t BufferPool::MapExtra() {
  uint32_t index = Pop(&free_extras_);
  if (index == kNone) {
    uint32_t used = __atomic_load_n(&extras_used_, __ATOMIC_RELAXED);
    do {
      if (used == kExtras) return kNone;
    } while (!__atomic_compare_exchange_n(&extras_used_, &used, used + 1, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    index = kBuffers + used + 1;
  }
  auto* extra = static_cast<uint8_t*>(MapPrivate(kBufferBytes));
  if (extra == nullptr) {
    Push(&free_extras_, index);
    return kNone;
  }
  __atomic_store_n(&extras_[index - 1 - kBuffers], extra, __ATOMIC_RELEASE);
  return index;
}

uint8_t* BufferPool::At(uint32_t index) const {
  if (index <= kBuffers) return memory_ + (index - 1) * kBufferBytes;
  return __atomic_load_n(&extras_[index - 1 - kBuffers], __ATOMIC_ACQUIRE);
}

void BufferPool::GiveBackUnused() {
  // The free buffers are taken out meanwhile, so that none is handed out while its pages go.
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
    // If another thread has popped the buffer meanwhile, `next` is not used, because the count
    // differs.
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
  if (memory == nullptr || buffer == nullptr) return kNone;
  if (buffer >= memory && buffer < memory + kBuffers * kBufferBytes) {
    return static_cast<uint32_t>((buffer - memory) / kBufferBytes) + 1;
  }
  const uint32_t used = __atomic_load_n(&extras_used_, __ATOMIC_ACQUIRE);
  for (uint32_t extra = 0; extra < used; ++extra) {
    if (__atomic_load_n(&extras_[extra], __ATOMIC_ACQUIRE) == buffer) return kBuffers + extra + 1;
  }
  return kNone;
}

}  // namespace proftrace::agent
