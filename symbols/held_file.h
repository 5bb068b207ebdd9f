// A file that a process has mapped, opened once and kept open: what is analysed, what the kernel is
// asked to put probes into and what jumps are checked against is one and the same file, whatever is
// done to names and mappings meanwhile.
#pragma once

#include <sys/stat.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "userspace/base/unique_fd.h"

namespace proftrace {

// What tells a file, and what was written to it, from every other. Its owner can set the time of
// the last modification, but not that of the last change.
struct FileState {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_s = 0;
  int64_t modified_ns = 0;
  int64_t changed_s = 0;
  int64_t changed_ns = 0;

  auto operator<=>(const FileState&) const = default;
};

// Nothing: it is not a regular file, or (of a descriptor) cannot be looked at.
std::optional<FileState> StateIn(const struct stat& status);
std::optional<FileState> StateOfFile(int fd);
// Of the file that a path of /proc leads to (/proc/PID/map_files/…, /proc/self/fd/…).
std::optional<FileState> StateOfFile(const std::string& proc_path);

// Never changes; used by several threads.
class HeldFile {
 public:
  // Null: it is not a regular file.
  static std::shared_ptr<const HeldFile> Hold(UniqueFd fd);

  int fd() const { return fd_.get(); }
  // A path to the file for the kernel: only of the process that has the descriptor.
  std::string path() const;
  // Another descriptor; none where there are too many.
  UniqueFd Duplicate() const;
  // As it was when it was opened, before anything was read.
  const FileState& state() const { return state_; }
  // Whether it still is: nothing was written to it since, and neither its name nor its mode was
  // changed.
  bool IsUnchanged() const { return StateOfFile(fd()) == state_; }

 private:
  HeldFile(UniqueFd fd, const FileState& state);

  UniqueFd fd_;
  FileState state_;
};

// "/proc/self/fd/7".
std::string LinkOfDescriptor(int fd);

}  // namespace proftrace
