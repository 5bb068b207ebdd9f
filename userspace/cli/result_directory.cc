#include "userspace/cli/result_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <optional>

#include "exporters/output_file.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr const char* kCapture = "capture.ptrec";
constexpr const char* kEarlierCapture = ".capture.ptrec.earlier";

absl::Status DirectoryError(const std::string& path, const std::string& what) {
  return Fail(ExitCode::kOutputFailed,
              "cannot write results to " + path + ": " + what + "; give another one with -o");
}

// Why the directory at `path` could not be opened.
std::string WhyNotOpened(const std::string& path) {
  if (errno != ELOOP && errno != ENOTDIR) return ErrnoText(errno);
  struct stat facts {};
  const bool is_link = lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode);
  return is_link ? "it is a symbolic link" : "it is not a directory";
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

absl::StatusOr<ResultDirectory> ResultDirectory::Prepare(const std::string& path, bool force) {
  ResultDirectory result;
  result.path_ = path;
  while (result.path_.size() > 1 && result.path_.back() == '/') result.path_.pop_back();
  result.force_ = force;
  if (mkdir(result.path_.c_str(), 0755) == 0) {
    result.created_ = true;
  } else if (errno != EEXIST) {
    return DirectoryError(path, ErrnoText(errno));
  }
  const int fd = open(result.path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    return DirectoryError(path, WhyNotOpened(result.path_));
  }
  const bool empty = result.created_ || IsEmpty(fd);
  const std::optional<FileOwner> owner = OwnerFromSudo();
  if (result.created_ && owner.has_value() && fchown(fd, owner->uid, owner->gid) != 0) {
    close(fd);
    return DirectoryError(path, ErrnoText(errno));
  }
  const bool writable = faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
  const int error = errno;
  close(fd);
  if (!writable) return DirectoryError(path, ErrnoText(error));
  if (!empty && !force) {
    return DirectoryError(path, "it is not empty (--force writes into it all the same)");
  }
  return result;
}

absl::StatusOr<int> ResultDirectory::CreateCapture() const {
  const int directory = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) return DirectoryError(path_, ErrnoText(errno));
  // An earlier one stays until there is something to put in its place.
  if (force_) renameat(directory, kCapture, directory, kEarlierCapture);
  const int fd =
      openat(directory, kCapture, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  const int error = errno;
  close(directory);
  if (fd < 0) return DirectoryError(path_, ErrnoText(error));
  const std::optional<FileOwner> owner = OwnerFromSudo();
  if (owner.has_value() && fchown(fd, owner->uid, owner->gid) != 0) {
    const int chown_error = errno;
    close(fd);
    return DirectoryError(path_, ErrnoText(chown_error));
  }
  return fd;
}

void ResultDirectory::ForgetEarlier() const {
  if (force_) unlink((path_ + "/" + kEarlierCapture).c_str());
}

void ResultDirectory::Discard() const {
  unlink(capture_path().c_str());
  if (force_) rename((path_ + "/" + kEarlierCapture).c_str(), capture_path().c_str());
  if (created_) rmdir(path_.c_str());
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
