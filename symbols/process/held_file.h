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

// Identifies a file together with its content. The file's owner can set the time of the last
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

// Return the state of a file. nullopt: it is not a regular file, or the descriptor cannot be looked
// at.
std::optional<FileState> StateIn(const struct stat& status);
std::optional<FileState> StateOfFile(int fd);
// Returns the state of the file to which a path of /proc leads (/proc/PID/map_files/…,
// /proc/self/fd/…).
std::optional<FileState> StateOfFile(const std::string& proc_path);

// Never changes, so that several threads may use it.
class HeldFile {
 public:
  // Holds the file of `fd`. Null: it is not a regular file.
  static std::shared_ptr<const HeldFile> Hold(UniqueFd fd);
  // Holds a file that RemoteReader::Open() has opened; another process may have to read it. Null:
  // it could not be opened.
  static std::shared_ptr<const HeldFile> Hold(RemoteFile file);

  // Returns a descriptor that names the file for the kernel. No code outside of this class may read
  // from it or ask for the file's state, because for some files that would wait for ever.
  int fd() const { return fd_.get(); }
  // Returns a path that names the file for the kernel, valid only in the process that has the
  // descriptor.
  std::string path() const;
  // Whether another process reads the file for this one, because root may not, or might wait for
  // ever.
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
