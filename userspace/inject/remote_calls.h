// Has a stopped thread of the target make system calls for us. No library code of the target runs,
// so it does not matter which locks the thread holds.
#pragma once

#include <absl/status/statusor.h>
#include <sys/user.h>

#include <array>
#include <cstdint>

#include "userspace/inject/stopped_threads.h"
#include "userspace/inject/writable_memory.h"

namespace proftrace {

// The addresses in the target's libc that a remote call needs.
struct SystemCallPlaces {
  uint64_t call = 0;      // syscall; ret
  uint64_t restorer = 0;  // mov $15, %rax; syscall: rt_sigreturn
};

// As long as the object lives, the thread has all signals blocked, and on its stack, below the red
// zone, lies a signal frame with its earlier state: if proftrace is killed, the thread returns
// through that frame to where it was. At the object's end the thread is as it was, and still
// stopped. The kernel restarts an interrupted system call, as after any stop.
class RemoteCalls {
 public:
  static absl::StatusOr<RemoteCalls> Begin(const StoppedThread& thread,
                                           const WritableMemory& memory,
                                           const SystemCallPlaces& places);
  ~RemoteCalls();
  RemoteCalls(RemoteCalls&& other) noexcept;
  RemoteCalls& operator=(RemoteCalls&&) = delete;

  // Makes the call and returns the kernel's result: a negative errno if the call failed. Fails if
  // the thread is gone, or with kUnavailable if the call does not return in two seconds.
  absl::StatusOr<int64_t> Call(long number, const std::array<uint64_t, 6>& arguments);
  // Returns the address of kScratchBytes bytes on the thread's stack that calls may read and write.
  uint64_t scratch_address() const { return frame_ + kScratchOffset; }
  static constexpr uint64_t kScratchBytes = 256;

 private:
  RemoteCalls(const StoppedThread& thread, const SystemCallPlaces& places)
      : tid_(thread.tid), saved_(thread.registers), places_(places) {}
  absl::Status PlaceReturnFrame(const WritableMemory& memory);

  static constexpr uint64_t kScratchOffset = 512;  // behind the frame's registers

  int tid_;
  user_regs_struct saved_;
  SystemCallPlaces places_;
  uint64_t frame_ = 0;  // address of the return frame
  uint64_t signals_ = 0;
  bool is_active_ = false;
};

}  // namespace proftrace
