#include "exporters/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "exporters/gzip_sink.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr int kMaxTemporaryNames =
    100;  // leftovers of killed runs with our PID that are stepped over

std::string Joined(const std::string& directory, const std::string& name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : directory + "/" + name;
}

absl::Status CannotWrite(const std::string& path, int error) {
  const char* next = "choose another place with -o";
  if (error == ENOSPC || error == EDQUOT)
    next = "free some space there, or choose another place with -o";
  return Fail(ExitCode::kOutputFailed,
              "cannot write " + path + ": " + ErrnoText(error) + "; " + next);
}

// A file descriptor that is written to. With a temporary name it is renamed to its own on Finish().
class FileSink : public ByteSink {
 public:
  FileSink(int fd, int directory_fd, std::string temporary_name, std::string name, std::string path)
      : fd_(fd),
        directory_fd_(directory_fd),
        temporary_name_(std::move(temporary_name)),
        name_(std::move(name)),
        path_(std::move(path)) {}

  ~FileSink() override { Discard(); }

  absl::Status Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        const int error = errno;
        Discard();
        return CannotWrite(path_, error);
      }
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    // Some file systems (NFS, quotas) report a full disk only here.
    if (close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
      const int error = errno;
      Discard();
      return CannotWrite(path_, error);
    }
    if (!temporary_name_.empty() &&
        renameat(directory_fd_, temporary_name_.c_str(), directory_fd_, name_.c_str()) != 0) {
      const int error = errno;
      Discard();
      return CannotWrite(path_, error);
    }
    temporary_name_.clear();
    return absl::OkStatus();
  }

 private:
  void Discard() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
    if (!temporary_name_.empty()) unlinkat(directory_fd_, temporary_name_.c_str(), 0);
    temporary_name_.clear();
  }

  int fd_;
  int directory_fd_;
  std::string temporary_name_;
  std::string name_;
  std::string path_;
};

// Whether `directory_fd` is /dev: a rename there would replace a name that the system needs.
bool IsDeviceDirectory(int directory_fd) {
  struct stat here {};
  struct stat dev {};
  return fstat(directory_fd, &here) == 0 && stat("/dev", &dev) == 0 && here.st_dev == dev.st_dev &&
         here.st_ino == dev.st_ino;
}

std::optional<uint32_t> NumberFromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<FileOwner> OwnerFromSudo() {
  if (geteuid() != 0) return std::nullopt;
  const std::optional<uint32_t> uid = NumberFromEnvironment("SUDO_UID");
  const std::optional<uint32_t> gid = NumberFromEnvironment("SUDO_GID");
  if (!uid.has_value() || !gid.has_value()) return std::nullopt;
  return FileOwner{*uid, *gid};
}

absl::StatusOr<OutputDirectory> OutputDirectory::Open(const std::string& path,
                                                      std::optional<FileOwner> owner) {
  const int fd = open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return Fail(ExitCode::kOutputFailed, "cannot write into the directory " + path + ": " +
                                             ErrnoText(errno) + "; choose another place with -o");
  }
  return OutputDirectory(fd, path, owner);
}

OutputDirectory::OutputDirectory(int fd, std::string path, std::optional<FileOwner> owner)
    : fd_(fd), path_(std::move(path)), owner_(owner) {}

OutputDirectory::OutputDirectory(OutputDirectory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), owner_(other.owner_) {}

std::string OutputDirectory::ScratchPath() const {
  if (IsDeviceDirectory(fd_)) return "/tmp";
  return path_.empty() ? "." : path_;
}

OutputDirectory::~OutputDirectory() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::unique_ptr<ByteSink>> OutputDirectory::Create(const std::string& name) const {
  const std::string path = Joined(path_, name);
  struct stat existing {};
  const bool exists = fstatat(fd_, name.c_str(), &existing, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && S_ISDIR(existing.st_mode)) return CannotWrite(path, EISDIR);

  int fd = -1;
  std::string temporary_name;
  if (exists && (S_ISCHR(existing.st_mode) || S_ISFIFO(existing.st_mode))) {
    fd = openat(fd_, name.c_str(), O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
  } else if (IsDeviceDirectory(fd_)) {
    // /dev/stdout is a link to whatever that is: it is written to, not replaced.
    if (name != "stdout") return CannotWrite(path, EPERM);
    fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  } else {
    for (int attempt = 0; attempt < kMaxTemporaryNames && fd < 0; ++attempt) {
      temporary_name =
          ".proftrace-" + std::to_string(getpid()) + "-" + std::to_string(attempt) + ".tmp";
      fd = openat(fd_, temporary_name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  0644);
      if (fd < 0 && errno != EEXIST) break;
    }
  }
  if (fd < 0) return CannotWrite(path, errno);

  std::unique_ptr<ByteSink> sink = std::make_unique<FileSink>(fd, fd_, temporary_name, name, path);
  if (owner_.has_value() && !temporary_name.empty() && fchown(fd, owner_->uid, owner_->gid) != 0) {
    return CannotWrite(path, errno);
  }
  if (name.ends_with(".gz")) return NewGzipSink(std::move(sink));
  return sink;
}

}  // namespace proftrace
