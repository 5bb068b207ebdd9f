// A file that others decide about: it lies on a file system that is a program (FUSE) or another
// machine (NFS, CIFS, 9p), or at a path that a target may lead to one.
//
// Such a file system may let only some open its files (FUSE without allow_other lets only the user
// who mounted it, NFS with root_squash does not let root), and may never answer. Whoever waits for
// it then cannot be told to stop, and even closing a descriptor waits. So a process of its own
// opens and reads the file, as the user of the target where root may not. The wait for that process
// is limited; after it, the process is given up with the file.
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

// What is opened: a link of /proc that leads to the file itself, or a path below a root.
struct RemotePath {
  std::string link;
  int root = -1;     // a descriptor of the folder that `path` cannot lead out of; -1: `link` counts
  std::string path;  // in `root`
  // The device of its file system, where that is known: one that has not answered is not asked
  // again for a while, not even for another file.
  std::optional<uint64_t> device;
};

// The user to open a file as that root may not open: the user and the groups of a process, in its
// user namespace.
struct RemoteUser {
  Pid process{};
  // Who has mounted a FUSE file system, in numbers of that namespace: only exactly that user and
  // group may open anything there.
  std::optional<uint32_t> user;
  std::optional<uint32_t> group;
};

struct RemoteFile;

// The process that reads one file. Ends with the object; one that hangs is left to the kernel. May
// be used by several threads.
class RemoteReader {
 public:
  // Opens a regular file. Fails with EINVAL for anything else.
  static RemoteFile Open(const RemotePath& path, const RemoteUser& user);
  ~RemoteReader();
  RemoteReader(const RemoteReader&) = delete;
  RemoteReader& operator=(const RemoteReader&) = delete;

  // Returns how many bytes were read: 0 also where the file system does not answer in time, now or
  // before.
  size_t ReadAt(uint64_t offset, void* buffer, size_t bytes);
  // Returns the file's status as it is now.
  std::optional<struct stat> Stat();

 private:
  class State;
  explicit RemoteReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

struct RemoteFile {
  // A descriptor for reading, where the file is on this machine's own file systems. Else one that
  // names the file for the kernel and does nothing else (O_PATH): it never waits for anybody.
  UniqueFd fd;
  struct stat status {};
  uint64_t mount = 0;                    // a number that no other mount has or had; 0 = not known
  std::unique_ptr<RemoteReader> reader;  // null: `fd` is for reading
  // True in a worker: there is no descriptor, the process that started it reads the file.
  bool is_asked = false;
  // Why there is no descriptor: ETIMEDOUT where nobody answered.
  int error = 0;
};

}  // namespace proftrace
