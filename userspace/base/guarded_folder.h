// A directory that is written into, by its descriptor. All of proftrace's files are made, renamed
// and removed through one: results, dumps, cycles, temporary files, exports, the plan cache.
//
// Root often stands in a directory of the user whose job it looks at. That user can put a symbolic
// link, or another directory, in the place of any name there, at any moment. So
//   - a path is walked once, a component at a time, and never looked up again: what is done later
//     is done by the descriptor, with names that have no slash in them and are not followed;
//   - on the way a symbolic link is followed where only somebody whom root trusts can have put it
//     there. Trusted are root itself and the user who called sudo;
//   - what is made is for its owner alone: directories 0700, files 0600. The owner is who called
//     sudo, where somebody has.
// Without root's rights there is nothing to be had from us by a link: all links are followed, and
// the umask decides on modes.
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

// The users whose directories and links may lead to where we write.
struct FolderTrust {
  bool is_checked = true;  // false: everybody's
  uid_t own_uid = 0;
  std::optional<FileOwner> caller;  // of sudo

  static FolderTrust OfProcess();

  bool IsTrusted(uid_t uid) const;
  // Says why others than the trusted ones can put names into a directory, or take them away:
  // "belongs to user 1000"; empty where they cannot. Into one with the sticky bit they can put
  // their own alone.
  std::string WhyOthersCanWrite(const struct stat& directory) const;
};

// Errors are ExitCode::kOutputFailed; their message is only the reason: "Permission denied".
class GuardedFolder {
 public:
  // The folder of /proc that has the descriptors of this process, as paths.
  static constexpr char kDescriptors[] = "/proc/self/fd/";

  // `path` must exist; empty: the current directory. It may also be "/proc/self/fd/N".
  static absl::StatusOr<GuardedFolder> Open(const std::string& path,
                                            const FolderTrust& trust = FolderTrust::OfProcess());
  // Makes what is missing of it, and of what leads to it: the latter for all to pass (0755).
  static absl::StatusOr<GuardedFolder> OpenOrMake(
      const std::string& path, const FolderTrust& trust = FolderTrust::OfProcess());
  // Returns the directory of `path`, and in `name` what it is called there; "." where `path` ends
  // in a component that names no entry.
  static absl::StatusOr<GuardedFolder> OpenParent(
      const std::string& path, std::string* name,
      const FolderTrust& trust = FolderTrust::OfProcess());
  // Returns the one that `fd` is open on; `fd` stays the caller's. `path` is for messages.
  static absl::StatusOr<GuardedFolder> OfDescriptor(
      int fd, const std::string& path, const FolderTrust& trust = FolderTrust::OfProcess());

  // Returns the directory `name` in it, which is made where it is missing; `is_made` tells of that.
  absl::StatusOr<GuardedFolder> Make(const std::string& name, bool* is_made) const;

  // Opens the directory `name` in it, if there is one that is no link.
  std::optional<GuardedFolder> OpenInner(const std::string& name) const;

  // Opens a file that is there to be locked, for reading and writing; it is made where it is
  // missing. Invalid: errno says why not.
  UniqueFd OpenLock(const std::string& name) const;
  // Makes a new file; what has the name already is not opened. Invalid: errno says why not.
  UniqueFd Create(const std::string& name, int flags) const;
  // Makes a new file without a name, for reading and writing; a file system may know no such files.
  UniqueFd CreateNameless() const;
  // Makes such a file on any file system: under a made-up name, which is taken away at once.
  UniqueFd CreateTemporary() const;
  // Makes a symbolic link. False: errno says why not.
  bool MakeLink(const std::string& name, const std::string& target) const;
  // Renames a file. False: errno says why not.
  bool Rename(const std::string& from, const std::string& to) const;
  bool Remove(const std::string& name) const;
  bool RemoveFolder(const std::string& name) const;
  // Removes all that is in it, and in the folders in it; links themselves. False: something stayed.
  bool RemoveContents() const;
  // Finds an entry; nullopt: there is none, or it cannot be looked at. A link is not followed.
  std::optional<struct stat> Find(const std::string& name) const;

  bool IsEmpty() const;
  // Says why nobody should write into it who has root's rights: "it belongs to user 1000, and …";
  // empty where nothing speaks against it. A shared directory with the sticky bit (/tmp) will do.
  std::string WhyNotTrusted() const;
  // Whether a file in it, of these facts, was made by somebody trusted.
  bool IsTrustedFile(const struct stat& file) const;

  int fd() const { return fd_.get(); }
  // Returns the path as it was asked for; for a descriptor, the kernel's word for it.
  const std::string& path() const { return path_; }
  // Returns a path for what takes nothing else. It is good for as long as this lives.
  std::string DescriptorPath() const;

 private:
  GuardedFolder(UniqueFd fd, std::string path, const FolderTrust& trust)
      : fd_(std::move(fd)), path_(std::move(path)), trust_(trust) {}
  bool GiveToOwner(int fd) const;
  // nullopt: it cannot be listed.
  std::optional<std::vector<std::string>> Names() const;
  // Whether this file system calls us by another user's number, as NFS does with root: what we make
  // in it has the owner that it has, whom root does not trust.
  bool IsOfOurNameHere() const;
  mode_t FileMode() const;

  UniqueFd fd_;
  std::string path_;
  FolderTrust trust_;
};

// Returns the kernel's word for what `fd` is open on; empty without /proc.
std::string PathOfDescriptor(int fd);

}  // namespace proftrace
