#include "userspace/base/guarded_folder.h"

#include <absl/strings/str_cat.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr int kMostLinks = 40;  // as the kernel's own limit
constexpr mode_t kPassedByAll = 0755;

absl::Status Refuse(const std::string& why) { return Fail(ExitCode::kOutputFailed, why); }

std::optional<uint32_t> NumberFromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : ParseNumber<uint32_t>(text);
}

// Returns the text of the symbolic link that is open as `link`; nullopt: it cannot be read, or is
// too long.
std::optional<std::string> TargetOf(int link) {
  char target[PATH_MAX];
  const ssize_t length = readlinkat(link, "", target, sizeof(target));
  if (length <= 0 || length == sizeof(target)) return std::nullopt;
  return std::string(target, static_cast<size_t>(length));
}

bool IsOnProc(int fd) {
  struct statfs facts {};
  return fstatfs(fd, &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC;
}

// Walks a path from directory to directory. No other process can exchange a directory that was
// passed, because the walk holds its place by a descriptor and each step is one name.
class Walk {
 public:
  Walk(const FolderTrust& trust, bool makes_missing)
      : trust_(trust), makes_missing_(makes_missing) {}

  // Returns a descriptor of the directory at `path`, open for reading.
  absl::StatusOr<UniqueFd> To(const std::string& path) {
    if (absl::Status status = Push(path.empty() ? "." : path); !status.ok()) return status;
    if (!at_.valid()) at_ = UniqueFd(open(".", kDirectory));
    if (!at_.valid()) return Refuse(ErrnoText(errno));
    while (!ahead_.empty()) {
      const std::string name = std::move(ahead_.back());
      ahead_.pop_back();
      if (absl::Status status = Step(name); !status.ok()) return status;
    }
    UniqueFd readable(openat(at_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!readable.valid()) return Refuse(ErrnoText(errno));
    return readable;
  }

 private:
  static constexpr int kDirectory = O_PATH | O_DIRECTORY | O_CLOEXEC;

  absl::Status Push(const std::string& path) {
    if (path.front() == '/') at_ = UniqueFd(open("/", kDirectory));
    if (path.front() == '/' && !at_.valid()) return Refuse(ErrnoText(errno));
    const std::vector<std::string_view> names = SplitText(path, "/", /*skip_empty=*/true);
    ahead_.insert(ahead_.end(), names.rbegin(), names.rend());
    return absl::OkStatus();
  }

  absl::Status Step(const std::string& name) {
    if (name == ".") return absl::OkStatus();
    struct stat here {};
    if (fstat(at_.get(), &here) != 0) return Refuse(ErrnoText(errno));
    if (name == "..") {
      if (const std::string why = trust_.WhyOthersCanWrite(here); !why.empty()) {
        return Refuse(PathOfDescriptor(at_.get()) + ", which \"..\" leads out of, " + why +
                      " and could be moved meanwhile; give a path without \"..\"");
      }
    }
    UniqueFd next(openat(at_.get(), name.c_str(), kDirectory | O_NOFOLLOW));
    if (!next.valid() && errno == ENOENT && makes_missing_) {
      (void)mkdirat(at_.get(), name.c_str(), ahead_.empty() ? S_IRWXU : kPassedByAll);
      next = UniqueFd(openat(at_.get(), name.c_str(), kDirectory | O_NOFOLLOW));
    }
    if (next.valid()) {
      at_ = std::move(next);
      return absl::OkStatus();
    }
    const int error = errno;
    // openat() fails with ENOTDIR for a link as for a file, so that the entry is looked at again.
    const UniqueFd link(openat(at_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts {};
    const bool is_link = error == ENOTDIR && link.valid() && fstat(link.get(), &facts) == 0 &&
                         S_ISLNK(facts.st_mode);
    return is_link ? Follow(name, link.get(), here, facts) : Refuse(ErrnoText(error));
  }

  absl::Status Follow(const std::string& name, int link, const struct stat& directory,
                      const struct stat& facts) {
    if (++links_ > kMostLinks) return Refuse(ErrnoText(ELOOP));
    const std::string why = trust_.WhyOthersCanWrite(directory);
    const bool is_shared = (directory.st_mode & S_ISVTX) != 0;
    if (why.empty() && is_shared && !trust_.IsTrusted(facts.st_uid)) {
      return Refuse(absl::StrCat("the symbolic link \"", name, "\" in ",
                                 PathOfDescriptor(at_.get()), " belongs to user ", facts.st_uid,
                                 ", so root does not follow it"));
    }
    if (!why.empty()) {
      return Refuse(absl::StrCat(PathOfDescriptor(at_.get()), " ", why,
                                 ", so root does not follow the symbolic link \"", name,
                                 "\" in it"));
    }
    // A link of /proc leads to a file that a process has open. Its text is no path that could be
    // walked.
    if (IsOnProc(link)) {
      UniqueFd next(openat(at_.get(), name.c_str(), kDirectory));
      if (!next.valid()) return Refuse(ErrnoText(errno));
      at_ = std::move(next);
      return absl::OkStatus();
    }
    const std::optional<std::string> target = TargetOf(link);
    if (!target.has_value()) return Refuse(ErrnoText(ENOENT));
    return Push(*target);
  }

  FolderTrust trust_;
  bool makes_missing_;
  UniqueFd at_;
  std::vector<std::string> ahead_;  // the names that are still ahead; the last one is the next
  int links_ = 0;
};

bool IsOneName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

}  // namespace

std::optional<FileOwner> OwnerFromSudo() {
  if (geteuid() != 0) return std::nullopt;
  const std::optional<uint32_t> uid = NumberFromEnvironment("SUDO_UID");
  const std::optional<uint32_t> gid = NumberFromEnvironment("SUDO_GID");
  if (!uid.has_value() || !gid.has_value()) return std::nullopt;
  return FileOwner{*uid, *gid};
}

std::string PathOfDescriptor(int fd) {
  char name[PATH_MAX];
  const std::string link = GuardedFolder::kDescriptors + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), name, sizeof(name));
  return length <= 0 ? "" : std::string(name, static_cast<size_t>(length));
}

FolderTrust FolderTrust::OfProcess() {
  FolderTrust trust;
  trust.own_uid = geteuid();
  trust.is_checked = trust.own_uid == 0;
  trust.caller = OwnerFromSudo();
  return trust;
}

bool FolderTrust::IsTrusted(uid_t uid) const {
  return !is_checked || uid == 0 || uid == own_uid || (caller.has_value() && uid == caller->uid);
}

std::string FolderTrust::WhyOthersCanWrite(const struct stat& directory) const {
  if (!IsTrusted(directory.st_uid)) return absl::StrCat("belongs to user ", directory.st_uid);
  if (!is_checked || (directory.st_mode & S_ISVTX) != 0) return "";
  if ((directory.st_mode & S_IWOTH) != 0) return "can be written by everybody";
  // Where each user has a group of its own with the same number, the usual umask lets that group
  // write, which does no harm.
  const bool is_private = directory.st_gid != 0 && directory.st_gid == directory.st_uid;
  if ((directory.st_mode & S_IWGRP) == 0 || is_private) return "";
  return absl::StrCat("can be written by group ", directory.st_gid);
}

absl::StatusOr<GuardedFolder> GuardedFolder::Open(const std::string& path,
                                                  const FolderTrust& trust) {
  absl::StatusOr<UniqueFd> fd = Walk(trust, /*makes_missing=*/false).To(path);
  if (!fd.ok()) return fd.status();
  std::string name = path;
  if (path.starts_with(kDescriptors)) name = PathOfDescriptor(fd->get());
  return GuardedFolder(*std::move(fd), std::move(name), trust);
}

absl::StatusOr<GuardedFolder> GuardedFolder::OpenOrMake(const std::string& path,
                                                        const FolderTrust& trust) {
  absl::StatusOr<UniqueFd> fd = Walk(trust, /*makes_missing=*/true).To(path);
  if (!fd.ok()) return fd.status();
  return GuardedFolder(*std::move(fd), path, trust);
}

absl::StatusOr<GuardedFolder> GuardedFolder::OpenParent(const std::string& path, std::string* name,
                                                        const FolderTrust& trust) {
  const size_t end = path.find_last_not_of('/');
  const std::string bare = end == std::string::npos ? path : path.substr(0, end + 1);
  const size_t slash = bare.rfind('/');
  *name = slash == std::string::npos ? bare : bare.substr(slash + 1);
  std::string parent = slash == std::string::npos ? "." : bare.substr(0, slash + 1);
  if (!IsOneName(*name)) {
    parent = bare;
    *name = ".";
  }
  return Open(parent, trust);
}

absl::StatusOr<GuardedFolder> GuardedFolder::OfDescriptor(int fd, const std::string& path,
                                                          const FolderTrust& trust) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return Refuse(ErrnoText(errno));
  return GuardedFolder(std::move(copy), path, trust);
}

absl::StatusOr<GuardedFolder> GuardedFolder::Make(const std::string& name, bool* is_made) const {
  const mode_t mode = trust_.is_checked ? S_IRWXU : S_IRWXU | S_IRWXG | S_IRWXO;
  *is_made = IsOneName(name) && mkdirat(fd(), name.c_str(), mode) == 0;
  if (!*is_made && IsOneName(name) && errno != EEXIST) return Refuse(ErrnoText(errno));
  UniqueFd made(openat(fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made.valid()) {
    if (errno != ELOOP && errno != ENOTDIR) return Refuse(ErrnoText(errno));
    const std::optional<struct stat> facts = Find(name);
    const bool is_link = facts.has_value() && S_ISLNK(facts->st_mode);
    return Refuse(is_link ? "it is a symbolic link" : "it is not a directory");
  }
  GuardedFolder folder(std::move(made), path_ == "." ? name : path_ + "/" + name, trust_);
  // A folder that was made just now is checked too, because somebody who may write here has had the
  // time to put another one in its place.
  const std::string why = folder.WhyNotTrusted();
  if (!why.empty() && !(*is_made && folder.IsOfOurNameHere())) return Refuse(why);
  if (*is_made && !GiveToOwner(folder.fd())) return Refuse(ErrnoText(errno));
  return folder;
}

bool GuardedFolder::IsOfOurNameHere() const {
  struct stat folder {};
  struct stat file {};
  const UniqueFd made = CreateTemporary();
  return made.valid() && fstat(fd(), &folder) == 0 && fstat(made.get(), &file) == 0 &&
         !trust_.IsTrusted(folder.st_uid) && folder.st_uid == file.st_uid;
}

mode_t GuardedFolder::FileMode() const { return trust_.is_checked ? 0600 : 0644; }

bool GuardedFolder::GiveToOwner(int fd) const {
  return !trust_.caller.has_value() || fchown(fd, trust_.caller->uid, trust_.caller->gid) == 0;
}

std::optional<GuardedFolder> GuardedFolder::OpenInner(const std::string& name) const {
  if (!IsOneName(name)) return std::nullopt;
  UniqueFd inner(openat(fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!inner.valid()) return std::nullopt;
  return GuardedFolder(std::move(inner), path_ + "/" + name, trust_);
}

UniqueFd GuardedFolder::OpenLock(const std::string& name) const {
  if (!IsOneName(name)) {
    errno = EINVAL;
    return UniqueFd();
  }
  const auto open_it = [&] {
    return UniqueFd(openat(fd(), name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  };
  UniqueFd file = open_it();
  if (file.valid() || errno != ENOENT) return file;
  file = Create(name, O_RDWR);
  // Another process may have made the file meanwhile.
  return file.valid() || errno != EEXIST ? std::move(file) : open_it();
}

UniqueFd GuardedFolder::Create(const std::string& name, int flags) const {
  if (!IsOneName(name)) {
    errno = EINVAL;
    return UniqueFd();
  }
  UniqueFd file(
      openat(fd(), name.c_str(), flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FileMode()));
  if (!file.valid() || GiveToOwner(file.get())) return file;
  const int error = errno;
  Remove(name);
  errno = error;
  return UniqueFd();
}

UniqueFd GuardedFolder::CreateNameless() const {
  UniqueFd file(openat(fd(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, FileMode()));
  return file.valid() && !GiveToOwner(file.get()) ? UniqueFd() : std::move(file);
}

UniqueFd GuardedFolder::CreateTemporary() const {
  UniqueFd file = CreateNameless();
  // File systems that do not know O_TMPFILE fail with EISDIR, among others.
  if (file.valid() || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return UniqueFd();
  const std::string name = absl::StrCat(".proftrace-", absl::Hex(random, absl::kZeroPad16));
  file = Create(name, O_RDWR);
  if (file.valid()) Remove(name);
  return file;
}

bool GuardedFolder::MakeLink(const std::string& name, const std::string& target) const {
  return symlinkat(target.c_str(), fd_.get(), name.c_str()) == 0;
}

bool GuardedFolder::Rename(const std::string& from, const std::string& to) const {
  return renameat(fd(), from.c_str(), fd(), to.c_str()) == 0;
}

bool GuardedFolder::Remove(const std::string& name) const {
  return unlinkat(fd(), name.c_str(), 0) == 0;
}

bool GuardedFolder::RemoveFolder(const std::string& name) const {
  return unlinkat(fd(), name.c_str(), AT_REMOVEDIR) == 0;
}

std::optional<struct stat> GuardedFolder::Find(const std::string& name) const {
  struct stat facts {};
  if (fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return facts;
}

std::optional<std::vector<std::string>> GuardedFolder::Names() const {
  // Opens the folder anew: a descriptor has one position for all of this process.
  const int listed = openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(listed < 0 ? nullptr : fdopendir(listed),
                                                   closedir);
  if (folder == nullptr) {
    if (listed >= 0) close(listed);
    return std::nullopt;
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

bool GuardedFolder::IsEmpty() const {
  const std::optional<std::vector<std::string>> names = Names();
  return names.has_value() && names->empty();
}

bool GuardedFolder::RemoveContents() const {
  const std::optional<std::vector<std::string>> names = Names();
  if (!names.has_value()) return false;
  bool is_done = true;
  for (const std::string& name : *names) {
    if (Remove(name)) continue;
    UniqueFd inner(openat(fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    is_done = inner.valid() && GuardedFolder(std::move(inner), name, trust_).RemoveContents() &&
              RemoveFolder(name) && is_done;
  }
  return is_done;
}

std::string GuardedFolder::WhyNotTrusted() const {
  struct stat facts {};
  if (fstat(fd(), &facts) != 0) return ErrnoText(errno);
  const std::string why = trust_.WhyOthersCanWrite(facts);
  return why.empty() ? why : "it " + why + ", and what root writes there could be exchanged";
}

bool GuardedFolder::IsTrustedFile(const struct stat& file) const {
  return trust_.IsTrusted(file.st_uid);
}

std::string GuardedFolder::DescriptorPath() const { return kDescriptors + std::to_string(fd()); }

}  // namespace proftrace
