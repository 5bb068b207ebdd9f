// Finds out which threads of a patched process have ended, so that their slots can be freed.
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "userspace/patch/patched_process.h"

namespace proftrace {
namespace {

// Whether any thread on the machine has that number. If another process has got the number of a
// thread that ended, the thread counts as alive.
bool IsThread(uint32_t tid) { return access(("/proc/" + std::to_string(tid)).c_str(), F_OK) == 0; }

bool IsInOurNamespace(Pid pid) {
  struct stat own {};
  struct stat its {};
  return stat("/proc/self/ns/pid", &own) == 0 &&
         stat(("/proc/" + std::to_string(Raw(pid)) + "/ns/pid").c_str(), &its) == 0 &&
         own.st_ino == its.st_ino && own.st_dev == its.st_dev;
}

}  // namespace

// The kernel writes a thread's number into its control block before the thread runs, and in most
// cases a zero when the thread has ended. Where libc keeps the number there instead, it is a number
// that no thread has any more.
bool PatchedProcess::HasThreadEnded(uint64_t control_block, uint32_t tid) const {
  if (IsThread(tid)) return false;
  uint32_t number = 0;
  const auto offset = static_cast<uint64_t>(int64_t{ring_->options().tid_offset});
  if (!memory_.ReadValue(control_block + offset, &number)) {
    // The stack that held the control block is unmapped, or the whole process is gone.
    return true;
  }
  return number == 0 || (IsInOurNamespace(pid_) && !IsThread(number));
}

void PatchedProcess::FreeSlots() const {
  ring_->FreeSlots(
      [this](uint64_t control_block, uint32_t tid) { return HasThreadEnded(control_block, tid); });
}

}  // namespace proftrace
