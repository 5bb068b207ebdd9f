// A file that a process has mapped, opened once and kept open. The file that is analysed, that the
// kernel puts probes into and that jumps are checked against is the same one, whatever happens to
// names and mappings meanwhile.
#pragma once

#include <sys/stat.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "symbols/process/remote_file.h"
#include "userspace/base/unique_fd.h"

namespace proftrace {

// Tells a file with its content from every other. Its owner can set the time of the last
// modification, but not that of the last change.
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

// nullopt: it is not a regular file, or the descriptor cannot be looked at.
std::optional<FileState> StateIn(const struct stat& status);
std::optional<FileState> StateOfFile(int fd);
// Looks at the file that a path of /proc leads to (/proc/PID/map_files/…, /proc/self/fd/…).
std::optional<FileState> StateOfFile(const std::string& proc_path);

// Never changes; used by several threads.
class HeldFile {
 public:
  // Null: it is not a regular file.
  static std::shared_ptr<const HeldFile> Hold(UniqueFd fd);
  // Holds a file that another process reads, too, where that is needed. Null: it could not be
  // opened.
  static std::shared_ptr<const HeldFile> Hold(RemoteFile file);

  // Names the file for the kernel, which needs no right to read it. Nobody but this class may read
  // from it or ask for its state: for some files that waits without an end.
  int fd() const { return fd_.get(); }
  // A path to the file for the kernel, valid only in the process that has the descriptor.
  std::string path() const;
  // Whether another process reads it: root may not, or may have to wait.
  bool is_remote() const { return is_asked_ || reader_ != nullptr; }
  // The number of a remote file's mount, which no other mount has or had; 0 = not known.
  uint64_t mount() const { return mount_; }
  // Returns how many bytes could be read.
  size_t ReadAt(uint64_t offset, void* buffer, size_t bytes) const;
  // The file's status when it was opened, before anything was read.
  const struct stat& status() const { return status_; }
  const FileState& state() const { return state_; }
  // Whether the file is as it was: nothing was written to it since, and neither its name nor its
  // mode was changed.
  bool IsUnchanged() const;

 private:
  explicit HeldFile(RemoteFile file);

  UniqueFd fd_;
  struct stat status_;
  FileState state_;
  uint64_t mount_;
  bool is_asked_;
  std::unique_ptr<RemoteReader> reader_;
};

// Returns a path such as "/proc/self/fd/7".
std::string LinkOfDescriptor(int fd);

}  // namespace proftrace
