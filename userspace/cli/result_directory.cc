#include "userspace/cli/result_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <optional>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr const char* kCapture = "capture.ptrec";
constexpr const char* kEarlierCapture = ".capture.ptrec.earlier";

absl::Status DirectoryError(const std::string& path, const std::string& what) {
  return Fail(ExitCode::kOutputFailed,
              "cannot write results to " + path + ": " + what + "; give another one with -o");
}

// Why the directory `name` could not be opened.
std::string WhyNotOpened(int parent, const std::string& name) {
  if (errno != ELOOP && errno != ENOTDIR) return ErrnoText(errno);
  struct stat facts {};
  const bool is_link =
      fstatat(parent, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(facts.st_mode);
  return is_link ? "it is a symbolic link" : "it is not a directory";
}

// Whether `name`, which is not followed as a link, is what `facts` are of.
bool LeadsTo(int parent, const std::string& name, const struct stat& facts) {
  struct stat there {};
  return fstatat(parent, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         there.st_dev == facts.st_dev && there.st_ino == facts.st_ino;
}

// The kernel's word; empty without /proc.
std::string NameOf(int fd) {
  char name[PATH_MAX];
  const ssize_t length =
      readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof(name));
  return length <= 0 ? "" : std::string(name, static_cast<size_t>(length));
}

bool IsEmpty(int fd) {
  const int copy = dup(fd);
  DIR* directory = copy < 0 ? nullptr : fdopendir(copy);
  if (directory == nullptr) return false;
  bool empty = true;
  while (const dirent* entry = readdir(directory)) {
    empty =
        empty && (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0);
  }
  closedir(directory);
  return empty;
}

}  // namespace

absl::StatusOr<ResultDirectory> ResultDirectory::PrepareAt(int parent, const std::string& name,
                                                           const std::string& path, bool force) {
  ResultDirectory result;
  result.path_ = path;
  result.force_ = force;
  if (mkdirat(parent, name.c_str(), 0755) == 0) {
    result.created_ = true;
  } else if (errno != EEXIST) {
    return DirectoryError(path, ErrnoText(errno));
  }
  result.fd_ =
      UniqueFd(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const int fd = result.fd_.get();
  if (fd < 0) return DirectoryError(path, WhyNotOpened(parent, name));
  const bool empty = result.created_ || IsEmpty(fd);
  const std::optional<FileOwner> owner = OwnerFromSudo();
  if (result.created_ && owner.has_value() && fchown(fd, owner->uid, owner->gid) != 0) {
    return DirectoryError(path, ErrnoText(errno));
  }
  if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) != 0) {
    return DirectoryError(path, ErrnoText(errno));
  }
  if (!empty && !force) {
    return DirectoryError(path, "it is not empty (--force writes into it all the same)");
  }
  return result;
}

absl::StatusOr<ResultDirectory> ResultDirectory::Prepare(const std::string& path, bool force) {
  std::string bare = path;
  while (bare.size() > 1 && bare.back() == '/') bare.pop_back();
  return PrepareAt(AT_FDCWD, bare, bare, force);
}

absl::StatusOr<ResultDirectory> ResultDirectory::PrepareIn(const std::string& name,
                                                           bool force) const {
  return PrepareAt(fd_.get(), name, FindPlace().path + "/" + name, force);
}

absl::StatusOr<int> ResultDirectory::CreateCapture() {
  // An earlier one stays until there is something to put in its place.
  if (force_) renameat(fd_.get(), kCapture, fd_.get(), kEarlierCapture);
  UniqueFd fd(
      openat(fd_.get(), kCapture, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd.valid()) return DirectoryError(path_, ErrnoText(errno));
  const std::optional<FileOwner> owner = OwnerFromSudo();
  if (owner.has_value() && fchown(fd.get(), owner->uid, owner->gid) != 0) {
    return DirectoryError(path_, ErrnoText(errno));
  }
  capture_ = UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!capture_.valid()) return DirectoryError(path_, ErrnoText(errno));
  return fd.Release();
}

absl::StatusOr<std::unique_ptr<CaptureReader>> ResultDirectory::OpenCapture(
    const CaptureReader::Options& options) const {
  const int copy = fcntl(capture_.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return Fail(ExitCode::kInputDamaged,
                "cannot read the capture " + capture_path() + ": " + ErrnoText(errno));
  }
  return CaptureReader::OpenFile(copy, capture_path(), options);
}

absl::StatusOr<OutputDirectory> ResultDirectory::OpenForOutputs() const {
  return OutputDirectory::OfDescriptor(fd_.get(), FindPlace().path, OwnerFromSudo());
}

void ResultDirectory::RemoveCapture() const { unlinkat(fd_.get(), kCapture, 0); }

ResultDirectory::Place ResultDirectory::FindPlace() const {
  Place place;
  place.path = path_;
  struct stat own {};
  if (fstat(fd_.get(), &own) != 0) return place;
  place.is_as_asked = LeadsTo(AT_FDCWD, path_, own);
  if (place.is_as_asked) return place;
  const std::string name = NameOf(fd_.get());
  if (!name.empty() && LeadsTo(AT_FDCWD, name, own)) {
    place.path = name;
    return place;
  }
  place.is_removed = own.st_nlink == 0 || name.ends_with(" (deleted)");
  return place;
}

absl::Status ResultDirectory::CheckPlace() const {
  const Place place = FindPlace();
  if (place.is_as_asked) return absl::OkStatus();
  const std::string what = "the result directory " + path_;
  if (place.is_removed) {
    return Fail(ExitCode::kOutputFailed,
                what + " was removed while recording; nothing but the table is left");
  }
  return Fail(ExitCode::kOutputFailed,
              what + " was renamed while recording; " +
                  (place.path == path_ ? "wherever it is, it has the results"
                                       : "it is " + place.path + " now, and has the results"));
}

absl::Status ResultDirectory::CheckCapture() const {
  struct stat own {};
  if (fstat(capture_.get(), &own) == 0 && LeadsTo(fd_.get(), kCapture, own)) {
    return absl::OkStatus();
  }
  return Fail(ExitCode::kOutputFailed, capture_path() +
                                           " was removed while recording; the other results were "
                                           "made of what was recorded");
}

void ResultDirectory::ForgetEarlier() const {
  if (force_) unlinkat(fd_.get(), kEarlierCapture, 0);
}

void ResultDirectory::Discard() const {
  if (capture_.valid()) RemoveCapture();
  if (force_) renameat(fd_.get(), kEarlierCapture, fd_.get(), kCapture);
  const Place place = FindPlace();
  if (created_ && !place.is_removed) rmdir(place.path.c_str());
}

std::string DefaultResultName(const std::string& comm, Pid pid) {
  std::string name = "proftrace-";
  for (const char c : comm) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    name.push_back(plain ? c : '-');
  }
  const time_t now = time(nullptr);
  tm utc{};
  gmtime_r(&now, &utc);
  char stamp[32];
  strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &utc);
  return name + "-" + std::to_string(Raw(pid)) + "-" + stamp;
}

}  // namespace proftrace
