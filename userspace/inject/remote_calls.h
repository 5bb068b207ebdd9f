// System calls that a stopped thread of the target makes for us. No library code of the target
// runs, so it does not matter which locks the thread holds.
#pragma once

#include <absl/status/statusor.h>
#include <sys/user.h>

#include <array>
#include <cstdint>

#include "userspace/inject/stopped_threads.h"
#include "userspace/inject/writable_memory.h"

namespace proftrace {

// Where the target's libc has what a remote call needs.
struct SystemCallPlaces {
  uint64_t call = 0;      // syscall; ret
  uint64_t restorer = 0;  // mov $15, %rax; syscall: rt_sigreturn
};

// While it lives, the thread has all signals blocked, and on its stack, below the red zone, lies a
// signal frame with what it was doing: should proftrace be killed, the thread returns through that
// frame to where it was. Ends with the thread as it was, still stopped; an interrupted system call
// is restarted by the kernel as after any stop.
class RemoteCalls {
 public:
  static absl::StatusOr<RemoteCalls> Begin(const StoppedThread& thread,
                                           const WritableMemory& memory,
                                           const SystemCallPlaces& places);
  ~RemoteCalls();
  RemoteCalls(RemoteCalls&& other) noexcept;
  RemoteCalls& operator=(RemoteCalls&&) = delete;

  // Returns what the kernel returned: a negative errno where the call failed. An error when the
  // thread is gone.
  absl::StatusOr<int64_t> Call(long number, const std::array<uint64_t, 6>& arguments);
  // Returns where kScratchBytes on the thread's stack are, for what calls are to read or to write.
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
