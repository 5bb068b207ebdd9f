#include "symbols/held_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "symbols/target_entries.h"

namespace proftrace {

std::optional<FileState> StateIn(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  return FileState{status.st_dev,         status.st_ino,          status.st_size,
                   status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                   status.st_ctim.tv_nsec};
}

std::optional<FileState> StateOfFile(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? StateIn(status) : std::nullopt;
}

std::optional<FileState> StateOfFile(const std::string& proc_path) {
  const std::optional<struct stat> status = StatEntry(proc_path);
  return status ? StateIn(*status) : std::nullopt;
}

std::string LinkOfDescriptor(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

HeldFile::HeldFile(UniqueFd fd, const FileState& state) : fd_(std::move(fd)), state_(state) {}

std::shared_ptr<const HeldFile> HeldFile::Hold(UniqueFd fd) {
  const std::optional<FileState> state = StateOfFile(fd.get());
  if (!state.has_value()) return nullptr;
  return std::shared_ptr<const HeldFile>(new HeldFile(std::move(fd), *state));
}

std::string HeldFile::path() const { return LinkOfDescriptor(fd()); }

UniqueFd HeldFile::Duplicate() const { return UniqueFd(fcntl(fd(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace proftrace
