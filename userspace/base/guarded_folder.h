// A directory into which files are written by its descriptor. All of proftrace's files are made,
// renamed and removed through one: results, dumps, cycles, temporary files, exports, the plan
// cache.
//
// Root often stands in a directory of the user whose job it looks at. That user can put a symbolic
// link, or another directory, in the place of any name there, at any moment. So
//   - a path is walked once, a component at a time, and never looked up again. Later calls use the
//     descriptor of the last directory, with names that have no slash in them and without following
//     links;
//   - on the way a symbolic link is followed where only somebody whom root trusts can have put it
//     there. Trusted are root itself and the user who called sudo;
//   - new directories have the mode 0700 and new files 0600, so that only their owner can use them.
//     The owner is the user who called sudo, where somebody has.
// Where we are not root, a link cannot lead us to anything that its maker could not reach through
// us anyway: all links are followed, and the umask decides on modes.
#pragma once

#include <absl/status/statusor.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace proftrace {

struct FileOwner {
  uid_t uid = 0;
  gid_t gid = 0;
};

// Returns the user who called sudo, from SUDO_UID and SUDO_GID; nullopt when they are not set or we
// are not root.
std::optional<FileOwner> OwnerFromSudo();

// Decides whose directories and links may lead to the places where we write.
struct FolderTrust {
  bool is_checked = true;  // false: every user is trusted
  uid_t own_uid = 0;
  std::optional<FileOwner> caller;  // the user who called sudo

  static FolderTrust OfProcess();

  bool IsTrusted(uid_t uid) const;
  // Says why users who are not trusted can add or remove names in a directory ("belongs to user
  // 1000"); empty where they cannot. A trusted user's directory with the sticky bit passes: others
  // can add names there, but not remove those of somebody else.
  std::string WhyOthersCanWrite(const struct stat& directory) const;
};

// Errors are ExitCode::kOutputFailed; their message is only the reason: "Permission denied".
class GuardedFolder {
 public:
  // The folder of /proc with the descriptors of this process.
  static constexpr char kDescriptors[] = "/proc/self/fd/";

  // `path` must exist; empty: the current directory. It may also be "/proc/self/fd/N".
  static absl::StatusOr<GuardedFolder> Open(const std::string& path,
                                            const FolderTrust& trust = FolderTrust::OfProcess());
  // Opens the directory, and makes the parts of the path that are missing: the last one for its
  // owner alone, those before it with the mode 0755.
  static absl::StatusOr<GuardedFolder> OpenOrMake(
      const std::string& path, const FolderTrust& trust = FolderTrust::OfProcess());
  // Opens the directory that holds the entry `path`, and puts the entry's name there into `name`.
  // Where the path's last component names no entry ("", "." or ".."), opens `path` itself and sets
  // `name` to ".".
  static absl::StatusOr<GuardedFolder> OpenParent(
      const std::string& path, std::string* name,
      const FolderTrust& trust = FolderTrust::OfProcess());
  // Returns the folder that `fd` is open on, by a copy of the descriptor. `path` is for messages.
  static absl::StatusOr<GuardedFolder> OfDescriptor(
      int fd, const std::string& path, const FolderTrust& trust = FolderTrust::OfProcess());

  // Returns the directory `name` in this one, and makes it where it is missing: then `is_made` is
  // set. Fails where the entry is a link or where users who are not trusted can write into it.
  absl::StatusOr<GuardedFolder> Make(const std::string& name, bool* is_made) const;

  // Opens the directory `name` in this one; nullopt: it cannot be opened, or is a link.
  std::optional<GuardedFolder> OpenInner(const std::string& name) const;

  // Opens a file that serves as a lock, for reading and writing, and makes it where it is missing.
  // Invalid: errno says why.
  UniqueFd OpenLock(const std::string& name) const;
  // Makes a new file. Never opens an entry that has the name already. Invalid: errno says why.
  UniqueFd Create(const std::string& name, int flags) const;
  // Makes a new file without a name, for reading and writing. Invalid on a file system that knows
  // no such files (O_TMPFILE).
  UniqueFd CreateNameless() const;
  // Makes a file without a name on any file system: where O_TMPFILE is not known, it gets a made-up
  // name, which is removed at once.
  UniqueFd CreateTemporary() const;
  // Makes a symbolic link. False: errno says why.
  bool MakeLink(const std::string& name, const std::string& target) const;
  // Renames a file. False: errno says why.
  bool Rename(const std::string& from, const std::string& to) const;
  bool Remove(const std::string& name) const;
  bool RemoveFolder(const std::string& name) const;
  // Removes everything in the folder and in the folders below it. Removes links, not the files that
  // they lead to. False: something could not be removed.
  bool RemoveContents() const;
  // Finds an entry; nullopt: there is none, or it cannot be looked at. A link is not followed.
  std::optional<struct stat> Find(const std::string& name) const;

  bool IsEmpty() const;
  // Says why root should not write into the folder ("it belongs to user 1000, and …"); empty where
  // root may. A shared directory with the sticky bit, as /tmp, is good enough.
  std::string WhyNotTrusted() const;
  // Whether the owner in `file`, the status of a file in this folder, is trusted.
  bool IsTrustedFile(const struct stat& file) const;

  int fd() const { return fd_.get(); }
  // Returns the path that the folder was opened by. Where that was "/proc/self/fd/N", returns the
  // kernel's name for the directory.
  const std::string& path() const { return path_; }
  // Returns a path for functions that take no descriptor. It is valid while this object lives.
  std::string DescriptorPath() const;

 private:
  GuardedFolder(UniqueFd fd, std::string path, const FolderTrust& trust)
      : fd_(std::move(fd)), path_(std::move(path)), trust_(trust) {}
  bool GiveToOwner(int fd) const;
  // Returns the names of the entries; nullopt: the folder cannot be listed.
  std::optional<std::vector<std::string>> Names() const;
  // Whether the file system gives files that we make another owner, as NFS does with root's, and
  // the folder belongs to that same owner. Then the folder may be our own, although root does not
  // trust its owner.
  bool IsOfOurNameHere() const;
  mode_t FileMode() const;

  UniqueFd fd_;
  std::string path_;
  FolderTrust trust_;
};

// Returns the kernel's name for the file that `fd` is open on; empty where /proc is missing.
std::string PathOfDescriptor(int fd);

}  // namespace proftrace
