#include "userspace/base/foreign_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "userspace/base/guarded_folder.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kBeforeName = "/memfd:";
constexpr std::string_view kBehindName = " (deleted)";

bool HasName(int fd, const MemoryRules& rules) {
  const std::string path = PathOfDescriptor(fd);
  std::string_view name = path;
  if (!ConsumeText(&name, kBeforeName) || !name.ends_with(kBehindName)) return false;
  name.remove_suffix(kBehindName.size());
  return rules.is_prefix ? name.starts_with(rules.name) : name == rules.name;
}

// Opens a memfd of the process anew. Refuses any other file with EPERM, because opening it may have
// effects.
UniqueFd OpenMemoryOf(uint32_t pid, int number) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  char target[256];
  const ssize_t bytes = readlink(path.c_str(), target, sizeof(target));
  if (bytes < 0 || !std::string_view(target, static_cast<size_t>(bytes)).starts_with(kBeforeName)) {
    errno = EPERM;
    return UniqueFd();
  }
  return UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

}  // namespace

UniqueFd CopyDescriptor(uint32_t pid, int number) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  if (!process.valid()) return UniqueFd();
  UniqueFd copy(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), number, 0)));
  if (copy.valid() || (errno != EPERM && errno != ENOSYS)) return copy;
  // The seccomp filter of a container allows pidfd_getfd(2) only to processes with CAP_SYS_PTRACE.
  return OpenMemoryOf(pid, number);
}

std::string WhyNotMemory(int fd, const MemoryRules& rules) {
  struct stat file {};
  struct statfs system {};
  // Only files of tmpfs are accepted. Others may fail under a reader: a page of hugetlbfs may be
  // missing, for example.
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_nlink != 0 ||
      fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC || !HasName(fd, rules)) {
    return "is another file";
  }
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) != O_RDWR) return "cannot be read and written";
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return "is another file";
  if ((seals & rules.needed_seals) != rules.needed_seals) {
    return (rules.needed_seals & ~seals & F_SEAL_SHRINK) != 0 ? "could become smaller"
                                                              : "could be changed";
  }
  if ((seals & rules.forbidden_seals) != 0) return "was sealed by another";
  const auto bytes = static_cast<uint64_t>(file.st_size);
  if (bytes < rules.least_bytes || bytes > rules.most_bytes) return "has a wrong size";
  return "";
}

}  // namespace proftrace
