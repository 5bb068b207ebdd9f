#pragma once

#include <stddef.h>
#include <stdint.h>

namespace proftrace::agent {

// The buffers that CUPTI writes activity into. CUPTI's own threads and those of the job take and
// complete buffers in callbacks, which take no lock, allocate nothing and wait for nothing. One
// thread of ours empties completed buffers. The object lies in static memory and begins as zeros:
// once CUPTI knows the callbacks it may call them at any time, also long after a recording, and in
// a child of a fork, which has its own copy.
class BufferPool {
 public:
  // CUPTI's documentation advises 1 to 10 MB. But a buffer with work that has not ended is handed
  // over only when it is full, and a job that runs ahead of the GPU always has such work. Some 500
  // launches fill a buffer of this size.
  static constexpr size_t kBufferBytes = 128 << 10;
  // CUPTI 12.3 and later has one buffer in use for each thread that calls CUDA.
  static constexpr uint32_t kBuffers = 512;
  // The number of further buffers of the same size, for versions of CUPTI that must not be refused
  // one.
  static constexpr uint32_t kExtras = 4096;

  struct Completed {
    uint8_t* buffer = nullptr;  // nullptr: none
    size_t valid_bytes = 0;
  };

  // Reserves the pool's memory; pages come with their first use. Returns false if there is none.
  // May be called again: buffers that CUPTI still has stay CUPTI's.
  bool Open();
  // Sets what Request() does when no buffer is free. CUPTI before API version 27 (CUDA 12.9) can
  // crash when it is refused a buffer (Kineto, CuptiActivityApi.cpp,
  // kCuptiBufferRejectionMinVersion). With `never_refuse`, it is given a buffer that is completed
  // and not read yet, whose records are lost, or as a last resort memory outside of the pool.
  void SetNeverRefuse(bool never_refuse);

  uint8_t* Request();                                  // on any thread; nullptr: refused
  void Complete(uint8_t* buffer, size_t valid_bytes);  // on any thread
  // Takes a buffer back from CUPTI, as Complete() does, but nobody reads it.
  void Discard(uint8_t* buffer);
  // Returns the oldest completed buffer. May be called only on the one thread that reads.
  Completed TakeCompleted();
  // Frees a buffer that TakeCompleted() returned and that was read. May be called only on that
  // thread.
  void Recycle(uint8_t* buffer);
  void GiveBackUnused();  // gives the pages of free buffers back to the kernel

  // Returns how many requests were refused, or served by dropping another buffer.
  uint64_t refused() const { return __atomic_load_n(&refused_, __ATOMIC_RELAXED); }
  // Returns how many buffers CUPTI has.
  uint32_t lent() const { return __atomic_load_n(&lent_, __ATOMIC_ACQUIRE); }
  // Returns the number of requests and completions, which grows whenever CUPTI calls us.
  uint64_t calls() const { return __atomic_load_n(&calls_, __ATOMIC_ACQUIRE); }
  // Returns how many completed buffers were not ours: they belong to another user, who had
  // registered callbacks before us.
  uint64_t foreign() const { return __atomic_load_n(&foreign_, __ATOMIC_RELAXED); }

 private:
  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kAll = kBuffers + kExtras;

  // A stack of buffers: the number of its first buffer + 1, and above it a count of changes, so
  // that a comparison fails when the same buffer is first again. Buffers from kBuffers on are extra
  // ones.
  using Head = uint64_t;
  void Push(Head* head, uint32_t index);
  uint32_t Pop(Head* head);  // returns the number + 1; kNone: the stack is empty
  uint32_t TakeAll(Head* head);
  // Returns the number + 1; kNone: the buffer is not ours.
  uint32_t IndexOf(const uint8_t* buffer) const;
  uint8_t* At(uint32_t index) const;
  uint32_t MapExtra();
  void Free(uint32_t index);
  uint32_t TakeBack(const uint8_t* buffer);

  uint8_t* memory_;
  uint8_t* extras_[kExtras];  // nullptr: not mapped
  uint32_t extras_used_;      // how many extra numbers were ever in use, from the first one on
  Head free_;
  Head free_extras_;  // the numbers of extra buffers without memory
  Head completed_;    // the newest buffer first
  // The buffers that were taken from completed_, as a stack with the oldest one first. Only the
  // reading thread uses it.
  uint32_t ordered_;
  uint32_t next_[kAll];  // the number of the next buffer in a stack + 1
  uint32_t valid_bytes_[kAll];
  bool never_refuse_;
  uint32_t lent_;
  uint64_t refused_;
  uint64_t calls_;
  uint64_t foreign_;
};

}  // namespace proftrace::agent
