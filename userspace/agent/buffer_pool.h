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
  static constexpr size_t kBufferBytes = 1 << 20;  // CUPTI's documentation: 1 to 10 MB
  // CUPTI 12.3 and later has one in use for each thread that calls CUDA.
  static constexpr uint32_t kBuffers = 64;

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
  // resort, whose records are lost too.
  void SetNeverRefuse(bool never_refuse);

  uint8_t* Request();                                  // any thread; nullptr = none
  void Complete(uint8_t* buffer, size_t valid_bytes);  // any thread
  Completed TakeCompleted();                           // one thread, the oldest first
  void Recycle(uint8_t* buffer);
  void GiveBackUnused();  // pages of free buffers go back to the kernel

  // Requests that were refused or served by dropping another buffer.
  uint64_t refused() const { return __atomic_load_n(&refused_, __ATOMIC_RELAXED); }

 private:
  static constexpr uint32_t kNone = 0;

  // A stack of buffers: its first one's number + 1, and a count of changes above it, so that a
  // comparison fails when the same buffer is first again.
  using Head = uint64_t;
  void Push(Head* head, uint32_t index);
  uint32_t Pop(Head* head);  // number + 1; kNone = empty
  uint32_t TakeAll(Head* head);
  uint32_t IndexOf(const uint8_t* buffer) const;  // number + 1; kNone = not of the pool

  uint8_t* memory_;
  Head free_;
  Head completed_;           // the newest first
  uint32_t ordered_;         // taken from there, the oldest first; the one thread's
  uint32_t next_[kBuffers];  // number + 1
  size_t valid_bytes_[kBuffers];
  bool never_refuse_;
  uint64_t refused_;
};

}  // namespace proftrace::agent
