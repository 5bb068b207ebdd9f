#pragma once

#include <stddef.h>
#include <stdint.h>

namespace proftrace::agent {

// The buffers that CUPTI writes activity into. CUPTI's own threads and those of the job take and
// complete buffers in callbacks: no lock, no allocation, no waiting. One thread of ours empties
// completed ones. Zero-initialised, in static memory: CUPTI may call at any time once it knows the
// callbacks, also long after a recording and in a child of a fork, which has a copy of its own.
class BufferPool {
 public:
  // CUPTI's documentation advises 1 to 10 MB. But a buffer with work that has not ended comes when
  // it is full only, and a job that runs ahead always has such work: this much is filled by some
  // 500 launches.
  static constexpr size_t kBufferBytes = 128 << 10;
  // CUPTI 12.3 and later has one in use for each thread that calls CUDA.
  static constexpr uint32_t kBuffers = 512;
  // More buffers of the same size, for CUPTI that must not be refused one.
  static constexpr uint32_t kExtras = 4096;

  struct Completed {
    uint8_t* buffer = nullptr;  // nullptr = none
    size_t valid_bytes = 0;
  };

  // Has memory from now on; pages come with their first use. False when there is none. May be
  // called again: buffers that CUPTI still has stay CUPTI's.
  bool Open();
  // CUPTI before API version 27 (CUDA 12.9) can crash when it is refused a buffer (Kineto,
  // CuptiActivityApi.cpp, kCuptiBufferRejectionMinVersion). With `never_refuse` it is given one
  // that is completed and unread, whose records are lost, and memory outside of the pool as a last
  // resort.
  void SetNeverRefuse(bool never_refuse);

  uint8_t* Request();                                  // any thread; nullptr = none
  void Complete(uint8_t* buffer, size_t valid_bytes);  // any thread
  void Discard(uint8_t* buffer);                       // instead of Complete(): it is not read
  Completed TakeCompleted();                           // one thread, the oldest first
  void Recycle(uint8_t* buffer);                       // that thread, when it has read it
  void GiveBackUnused();  // pages of free buffers go back to the kernel

  // Requests that were refused or served by dropping another buffer.
  uint64_t refused() const { return __atomic_load_n(&refused_, __ATOMIC_RELAXED); }
  // Buffers that CUPTI has.
  uint32_t lent() const { return __atomic_load_n(&lent_, __ATOMIC_ACQUIRE); }
  // Requests and completions: grows when CUPTI calls us.
  uint64_t calls() const { return __atomic_load_n(&calls_, __ATOMIC_ACQUIRE); }
  // Returns how many completed buffers are not ours: another user's, who had registered callbacks
  // before us.
  uint64_t foreign() const { return __atomic_load_n(&foreign_, __ATOMIC_RELAXED); }

 private:
  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kAll = kBuffers + kExtras;

  // A stack of buffers: its first one's number + 1, and a count of changes above it, so that a
  // comparison fails when the same buffer is first again. Numbers from kBuffers on are extra ones.
  using Head = uint64_t;
  void Push(Head* head, uint32_t index);
  uint32_t Pop(Head* head);  // number + 1; kNone = empty
  uint32_t TakeAll(Head* head);
  uint32_t IndexOf(const uint8_t* buffer) const;  // number + 1; kNone = not ours
  uint8_t* At(uint32_t index) const;
  uint32_t MapExtra();
  void Free(uint32_t index);
  uint32_t TakeBack(const uint8_t* buffer);

  uint8_t* memory_;
  uint8_t* extras_[kExtras];  // nullptr = not mapped
  uint32_t extras_used_;      // from the first one on, now or before
  Head free_;
  Head free_extras_;     // numbers only
  Head completed_;       // the newest first
  uint32_t ordered_;     // taken from there, the oldest first; the one thread's
  uint32_t next_[kAll];  // number + 1
  uint32_t valid_bytes_[kAll];
  bool never_refuse_;
  uint32_t lent_;
  uint64_t refused_;
  uint64_t calls_;
  uint64_t foreign_;
};

}  // namespace proftrace::agent
