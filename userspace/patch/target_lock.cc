#include "userspace/patch/target_lock.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr int64_t kWaitNs = 1'000'000'000;
// How long TakeForCode() waits for its lock. On a busy machine, or before Linux 6.6, the kernel
// needs long to set thousands of probes.
constexpr int64_t kWaitForCodeNs = 20'000'000'000;
constexpr useconds_t kLookUs = 5000;
constexpr size_t kMostLocksBytes = size_t{4} << 20;
constexpr long kPidFsMagic = 0x50494446;  // linux/magic.h of 6.9

UniqueFd OpenPidFd(Pid pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(Raw(pid)), 0)));
}

UniqueFd OpenPlace(TargetLock::Place place, Pid pid) {
  if (place == TargetLock::Place::kPidFd) return OpenPidFd(pid);
  return UniqueFd(
      open(absl::StrCat("/proc/", Raw(pid)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Returns the PID of the holder of the lock on the file `fd`, by /proc/locks ("1: FLOCK ADVISORY
// WRITE 7 00:15:6529779 0 EOF"). Holders in other PID namespaces are not listed there.
std::optional<Pid> HolderOf(const UniqueFd& fd) {
  struct stat file {};
  if (fstat(fd.get(), &file) != 0) return std::nullopt;
  const std::string name = absl::StrFormat("%02x:%02x:%u", major(file.st_dev), minor(file.st_dev),
                                           static_cast<uint64_t>(file.st_ino));
  const std::string locks = ReadSmallFile("/proc/locks", kMostLocksBytes);
  for (const std::string_view line : SplitText(locks, "\n", /*skip_empty=*/true)) {
    const std::vector<std::string_view> words = SplitText(line, " ", /*skip_empty=*/true);
    if (words.size() <= 5 || words[1] != "FLOCK" || words[5] != name) continue;
    const std::optional<uint32_t> holder = ParseNumber<uint32_t>(words[4]);
    return holder.has_value() ? std::optional(Pid{*holder}) : std::nullopt;
  }
  return std::nullopt;
}

// Waits for the lock for `wait_ns` nanoseconds. `how`: LOCK_EX or LOCK_SH.
absl::Status WaitForLock(const UniqueFd& fd, int how, int64_t wait_ns, Pid pid) {
  const int64_t deadline_ns = MonotonicNs() + wait_ns;
  while (flock(fd.get(), how | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      return Fail(ExitCode::kHostUnfit,
                  absl::StrCat("PID ", Raw(pid), " cannot be locked: ", ErrnoText(errno)));
    }
    if (MonotonicNs() > deadline_ns) {
      return TargetLock::HeldBy(pid, HolderOf(fd));
    }
    usleep(kLookUs);
  }
  return absl::OkStatus();
}

absl::Status NoProcess(Pid pid) {
  return Fail(ExitCode::kNoTarget, absl::StrCat("there is no process with PID ", Raw(pid)));
}

}  // namespace

absl::Status TargetLock::HeldBy(Pid pid, std::optional<Pid> holder) {
  std::string text = absl::StrCat("PID ", Raw(pid), " is being patched by ");
  if (holder.has_value()) {
    absl::StrAppend(&text, "proftrace PID ", Raw(*holder),
                    "; wait until that recording has ended, or end it with kill -INT ",
                    Raw(*holder));
  } else {
    text += "another proftrace; wait until its recording has ended";
  }
  return Fail(ExitCode::kNotPermitted, text);
}

std::vector<TargetLock::Place> TargetLock::Places() {
  // Before Linux 6.9 all pidfds have the same inode, and so the same lock.
  const UniqueFd self = OpenPidFd(Pid{static_cast<uint32_t>(getpid())});
  struct statfs facts {};
  if (self.valid() && fstatfs(self.get(), &facts) == 0 && facts.f_type == kPidFsMagic) {
    return {Place::kPidFd, Place::kProcFolder};
  }
  return {Place::kProcFolder};
}

absl::StatusOr<TargetLock> TargetLock::Take(Pid pid) { return TakeAt(Places().front(), pid); }

absl::StatusOr<TargetLock> TargetLock::TakeAt(Place place, Pid pid) {
  UniqueFd fd = OpenPlace(place, pid);
  if (!fd.valid()) return NoProcess(pid);
  if (absl::Status status = WaitForLock(fd, LOCK_EX, kWaitNs, pid); !status.ok()) return status;
  return TargetLock(std::move(fd));
}

bool TargetLock::IsTaken(Pid pid) {
  const UniqueFd fd = OpenPlace(Places().front(), pid);
  return fd.valid() && flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

absl::StatusOr<TargetLock> TargetLock::TakeForCode(Pid pid, int how) {
  UniqueFd fd(
      open(absl::StrCat("/proc/", Raw(pid), "/task").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return NoProcess(pid);
  if (absl::Status status = WaitForLock(fd, how, kWaitForCodeNs, pid); !status.ok()) return status;
  return TargetLock(std::move(fd));
}

absl::StatusOr<TargetLock> TargetLock::TakeForJumps(Pid pid) { return TakeForCode(pid, LOCK_EX); }

absl::StatusOr<TargetLock> TargetLock::TakeForProbes(Pid pid) { return TakeForCode(pid, LOCK_SH); }

}  // namespace proftrace
