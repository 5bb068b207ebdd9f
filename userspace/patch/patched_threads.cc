// Which threads of a patched process have ended, for their slots of the ring.
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "userspace/patch/patched_process.h"

namespace proftrace {
namespace {

// Whether any process has a thread of that number: another process that has got it by now counts as
// if the thread were there.
bool IsThread(uint32_t tid) { return access(("/proc/" + std::to_string(tid)).c_str(), F_OK) == 0; }

bool IsInOurNamespace(Pid pid) {
  struct stat own {};
  struct stat its {};
  return stat("/proc/self/ns/pid", &own) == 0 &&
         stat(("/proc/" + std::to_string(Raw(pid)) + "/ns/pid").c_str(), &its) == 0 &&
         own.st_ino == its.st_ino && own.st_dev == its.st_dev;
}

}  // namespace

// The kernel writes a thread's number into its control block before the thread runs, and mostly a
// zero when it has ended; libcs that keep it leave a number that no thread has.
bool PatchedProcess::HasThreadEnded(uint64_t control_block, uint32_t tid) const {
  if (IsThread(tid)) return false;
  uint32_t number = 0;
  const auto offset = static_cast<uint64_t>(int64_t{ring_->options().tid_offset});
  if (!memory_.ReadValue(control_block + offset, &number)) {
    // The stack that it lay on is gone, or all of the process is.
    return true;
  }
  return number == 0 || (IsInOurNamespace(pid_) && !IsThread(number));
}

void PatchedProcess::FreeSlots() const {
  ring_->FreeSlots(
      [this](uint64_t control_block, uint32_t tid) { return HasThreadEnded(control_block, tid); });
}

}  // namespace proftrace
