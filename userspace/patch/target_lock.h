// The right to change a process: one holder on the machine at a time, whoever it is and whatever
// PID namespace, mount namespace or user it has. Goes with its holder, however that ends.
//
// It is a lock (flock(2)) on the process's own file in the kernel: the pidfd where those have an
// inode each (Linux 6.9), else the process's folder in /proc, which only those share that use the
// same mount of it. The holder's children must not keep the descriptor: it is closed by exec, and a
// child that goes on without has to close it.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <optional>
#include <utility>
#include <vector>

#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

class TargetLock {
 public:
  enum class Place { kPidFd, kProcFolder };

  // Makes a lock that is not held.
  TargetLock() = default;
  bool is_held() const { return fd_.valid(); }
  // Waits for a second, as long as taking patches away may last. kNoTarget; kNotPermitted with the
  // PID of the process that has it.
  static absl::StatusOr<TargetLock> Take(Pid pid);
  static absl::StatusOr<TargetLock> TakeAt(Place place, Pid pid);
  // Whether somebody has it now, this program included.
  static bool IsTaken(Pid pid);
  // Take another lock: jumps are not written while somebody looks for places without any and puts
  // the kernel's probes there, which several may do at once. A probe inside of a jump would kill
  // the process. Shared by those who use the same mount of /proc.
  static absl::StatusOr<TargetLock> TakeForJumps(Pid pid);
  static absl::StatusOr<TargetLock> TakeForProbes(Pid pid);
  // Returns what is to be said where another proftrace changes the process; `holder`: its PID where
  // that is known. kNotPermitted.
  static absl::Status HeldBy(Pid pid, std::optional<Pid> holder);
  // Returns where this kernel can have the lock, the best place first.
  static std::vector<Place> Places();

 private:
  static absl::StatusOr<TargetLock> TakeForCode(Pid pid, int how);
  explicit TargetLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace proftrace
