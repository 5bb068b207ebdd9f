// The right to change a process: one holder on the machine at a time, whoever it is and whatever
// PID namespace, mount namespace or user it has. Goes with its holder, however that ends.
//
// It is a lock (flock(2)) on the process's own file in the kernel: the pidfd where those have an
// inode each (Linux 6.9), else the process's folder in /proc, which only those share that use the
// same mount of it. The holder's children must not keep the descriptor: it is closed by exec, and a
// child that goes on without has to close it.
#pragma once

#include <absl/status/statusor.h>

#include <utility>
#include <vector>

#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

class TargetLock {
 public:
  enum class Place { kPidFd, kProcFolder };

  // None.
  TargetLock() = default;
  // Waits for a second, as long as taking patches away may last. kNoTarget; kNotPermitted with the
  // PID of the process that has it.
  static absl::StatusOr<TargetLock> Take(Pid pid);
  static absl::StatusOr<TargetLock> TakeAt(Place place, Pid pid);
  // Where this kernel can have it, the best place first.
  static std::vector<Place> Places();

 private:
  explicit TargetLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace proftrace
