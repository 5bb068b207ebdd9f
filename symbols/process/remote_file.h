// Opens and reads remote files: files on a file system that is a program (FUSE) or another machine
// (NFS, CIFS, 9p), or at a path by which a target may lead us to such a one.
//
// Such a file system may allow only some users to open its files (FUSE without allow_other allows
// only the user who mounted it, NFS with root_squash does not allow root), and may never answer. A
// process that waits for it cannot be interrupted, and even closing a descriptor waits. So a child
// process opens and reads the file, as the user of the target where root may not. The wait for the
// child is limited; when it is over, the child and the file are given up.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

// The file to open: a link of /proc that leads to the file itself, or a path below a root
// directory.
struct RemotePath {
  std::string link;
  // A descriptor of the folder that `path` cannot lead out of; -1: `link` is used instead.
  int root = -1;
  std::string path;  // the path in `root`
  // The device of its file system, where it is known. A file system that has not answered is not
  // asked again for a while, not even for another file.
  std::optional<uint64_t> device;
};

// The user as whom a file is opened that root may not open: the user and the groups of a process,
// in its user namespace.
struct RemoteUser {
  Pid process{};
  // The user and group who mounted a FUSE file system, in numbers of that namespace, where only
  // they may open anything there.
  std::optional<uint32_t> user;
  std::optional<uint32_t> group;
};

struct RemoteFile;

// The child process that reads one file. It is killed with the object; a child that hangs in its
// file system ends later, or never. May be used by several threads.
class RemoteReader {
 public:
  // Opens a regular file. Fails with EINVAL for anything else.
  static RemoteFile Open(const RemotePath& path, const RemoteUser& user);
  ~RemoteReader();
  RemoteReader(const RemoteReader&) = delete;
  RemoteReader& operator=(const RemoteReader&) = delete;

  // Returns how many bytes were read. 0 also where the file system does not answer in time, or has
  // not answered before.
  size_t ReadAt(uint64_t offset, void* buffer, size_t bytes);
  // Returns the file's status as it is now.
  std::optional<struct stat> Stat();

 private:
  class State;
  explicit RemoteReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

struct RemoteFile {
  // A descriptor for reading, where the file is on a file system of this machine. Otherwise a
  // descriptor that only names the file for the kernel (O_PATH), which never waits.
  UniqueFd fd;
  struct stat status {};
  uint64_t mount = 0;                    // a number that no other mount has or had; 0 = not known
  std::unique_ptr<RemoteReader> reader;  // null: `fd` is for reading
  // True in a worker for a remote file: the process that started the worker reads it.
  bool is_asked = false;
  // Why there is no descriptor: ETIMEDOUT where nobody answered.
  int error = 0;
};

}  // namespace proftrace
