// The right to change a process. Only one process on the machine has it at a time, whatever its PID
// namespace, its mount namespace or its user. The right ends with its holder, however the holder
// ends.
//
// The right is a lock (flock(2)) on the file by which the kernel represents the process to be
// changed. That is the process's pidfd where each pidfd has its own inode (Linux 6.9), else the
// process's folder in /proc, whose lock only those see that use the same mount of /proc. The
// holder's children must not keep the descriptor: exec closes it, and a child that runs on without
// exec has to close it.
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
  // Waits for the lock for a second, which is as long as taking patches away may last. Fails with
  // kNoTarget, or with kNotPermitted and the PID of the lock's holder.
  static absl::StatusOr<TargetLock> Take(Pid pid);
  static absl::StatusOr<TargetLock> TakeAt(Place place, Pid pid);
  // Whether any program, this one included, holds the lock now.
  static bool IsTaken(Pid pid);
  // These two take another lock, so that no jumps are written while somebody looks for places
  // without jumps and puts the kernel's probes there: a probe inside of a jump would kill the
  // process. Several holders may have it for probes at once. Only those that use the same mount of
  // /proc see this lock.
  static absl::StatusOr<TargetLock> TakeForJumps(Pid pid);
  static absl::StatusOr<TargetLock> TakeForProbes(Pid pid);
  // Returns the error (kNotPermitted) for a process that another proftrace is changing; `holder`:
  // that proftrace's PID, if it is known.
  static absl::Status HeldBy(Pid pid, std::optional<Pid> holder);
  // Returns the places where this kernel can have the lock, the best place first.
  static std::vector<Place> Places();

 private:
  static absl::StatusOr<TargetLock> TakeForCode(Pid pid, int how);
  explicit TargetLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace proftrace
