#include "exporters/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/sendfile.h>
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

absl::Status CannotWriteInto(const std::string& path, int error) {
  return Fail(ExitCode::kOutputFailed, "cannot write into the directory " + path + ": " +
                                           ErrnoText(error) + "; choose another place with -o");
}

// Keeps signals that would end the process waiting for as long as it lives.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t before;
    sigemptyset(&held_);
    pthread_sigmask(SIG_BLOCK, nullptr, &before);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      const bool is_deadly =
          sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_DFL;
      if (is_deadly && sigismember(&before, number) == 0) sigaddset(&held_, number);
    }
    pthread_sigmask(SIG_BLOCK, &held_, nullptr);
  }
  ~HeldSignals() { pthread_sigmask(SIG_UNBLOCK, &held_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  bool AnyHasCome() const {
    sigset_t pending;
    sigpending(&pending);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      if (sigismember(&held_, number) == 1 && sigismember(&pending, number) == 1) return true;
    }
    return false;
  }

 private:
  sigset_t held_;
};

struct OpenFile {
  int fd = -1;
  std::string temporary_name;  // empty: it has none yet, or it is written to as it is
  bool is_nameless = false;
};

std::string TemporaryName(int attempt) {
  return ".proftrace-" + std::to_string(getpid()) + "-" + std::to_string(attempt) + ".tmp";
}

// Nothing is left of a file without a name, however we end. Without /proc it could not get one.
OpenFile OpenNameless(int directory_fd) {
  OpenFile file;
  if (access("/proc/self/fd", X_OK) != 0) return file;
  file.fd = openat(directory_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
  file.is_nameless = file.fd >= 0;
  return file;
}

OpenFile OpenNamed(int directory_fd) {
  OpenFile file;
  for (int attempt = 0; attempt < kMaxTemporaryNames && file.fd < 0; ++attempt) {
    file.temporary_name = TemporaryName(attempt);
    file.fd = openat(directory_fd, file.temporary_name.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file.fd < 0 && errno != EEXIST) break;
  }
  return file;
}

// False: `errno` says why not.
bool CopyFile(int from, int to) {
  struct stat facts {};
  if (fstat(from, &facts) != 0) return false;
  if (geteuid() == 0 && fchown(to, facts.st_uid, facts.st_gid) != 0) return false;
  for (off_t at = 0; at < facts.st_size;) {
    const ssize_t copied = sendfile(to, from, &at, static_cast<size_t>(facts.st_size - at));
    if (copied < 0 && errno != EINTR) return false;
    if (copied == 0) {
      errno = EIO;
      return false;
    }
  }
  return true;
}

// A file descriptor that is written to. A temporary file gets its name on Finish().
class FileSink : public ByteSink {
 public:
  FileSink(OpenFile file, int directory_fd, std::string name, std::string path)
      : fd_(file.fd),
        directory_fd_(directory_fd),
        temporary_name_(std::move(file.temporary_name)),
        is_nameless_(file.is_nameless),
        name_(std::move(name)),
        path_(std::move(path)) {
    if (!temporary_name_.empty()) signals_.emplace();
  }

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
    if (signals_.has_value() && signals_->AnyHasCome()) {
      Discard();
      signals_.reset();  // it ends us here
      return CannotWrite(path_, EINTR);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (is_nameless_ && !GiveName()) {
      const int error = errno;
      Discard();
      return CannotWrite(path_, error);
    }
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
  // A temporary one: a file takes another one's name by a rename alone. False: `errno` says why
  // not.
  bool GiveName() {
    const std::string source = "/proc/self/fd/" + std::to_string(fd_);
    for (int attempt = 0; attempt < kMaxTemporaryNames; ++attempt) {
      const std::string name = TemporaryName(attempt);
      if (linkat(AT_FDCWD, source.c_str(), directory_fd_, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        temporary_name_ = name;
        is_nameless_ = false;
        return true;
      }
      if (errno != EEXIST) break;
    }
    // A file system, or a policy, that lets no file have a name later.
    const OpenFile copy = OpenNamed(directory_fd_);
    if (copy.fd < 0) return false;
    temporary_name_ = copy.temporary_name;
    is_nameless_ = false;
    const int nameless = std::exchange(fd_, copy.fd);
    const bool is_copied = CopyFile(nameless, fd_);
    const int error = errno;
    close(nameless);
    errno = error;
    return is_copied;
  }

  void Discard() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
    is_nameless_ = false;
    if (!temporary_name_.empty()) unlinkat(directory_fd_, temporary_name_.c_str(), 0);
    temporary_name_.clear();
  }

  int fd_;
  int directory_fd_;
  std::string temporary_name_;
  bool is_nameless_;
  std::string name_;
  std::string path_;
  std::optional<HeldSignals> signals_;  // while there is a temporary name to be taken away
};

bool IsDirectory(int directory_fd, const char* path) {
  struct stat here {};
  struct stat there {};
  return fstat(directory_fd, &here) == 0 && stat(path, &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

// Whether no file can be made there, or a rename would replace a name that the system needs.
bool IsOfTheSystem(int directory_fd) {
  return IsDirectory(directory_fd, "/dev") || IsDirectory(directory_fd, "/proc/self/fd");
}

// A copy of the descriptor that the name stands for: it is written to as it is, be it a pipe
// (>(command) of a shell) or a file. -1: errno says why there is none.
int OpenDescriptor(int directory_fd, const std::string& name) {
  int number = -1;
  if (IsDirectory(directory_fd, "/dev")) {
    if (name == "stdout") number = STDOUT_FILENO;
  } else {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || end != name.data() + name.size()) number = -1;
  }
  if (number < 0) {
    errno = EPERM;
    return -1;
  }
  return fcntl(number, F_DUPFD_CLOEXEC, 0);
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
  if (fd < 0) return CannotWriteInto(path, errno);
  return OutputDirectory(fd, path, owner);
}

absl::StatusOr<OutputDirectory> OutputDirectory::OfDescriptor(int fd, const std::string& path,
                                                              std::optional<FileOwner> owner) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return CannotWriteInto(path, errno);
  return OutputDirectory(copy, path, owner);
}

OutputDirectory::OutputDirectory(int fd, std::string path, std::optional<FileOwner> owner)
    : fd_(fd), path_(std::move(path)), owner_(owner) {}

OutputDirectory::OutputDirectory(OutputDirectory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), owner_(other.owner_) {}

std::string OutputDirectory::ScratchPath() const {
  if (IsOfTheSystem(fd_)) return "/tmp";
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

  OpenFile file;
  bool is_temporary = false;
  if (exists && (S_ISCHR(existing.st_mode) || S_ISFIFO(existing.st_mode))) {
    file.fd = openat(fd_, name.c_str(), O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
  } else if (IsOfTheSystem(fd_)) {
    file.fd = OpenDescriptor(fd_, name);
  } else {
    file = OpenNameless(fd_);
    if (file.fd < 0) file = OpenNamed(fd_);
    is_temporary = true;
  }
  if (file.fd < 0) return CannotWrite(path, errno);

  const int fd = file.fd;
  std::unique_ptr<ByteSink> sink = std::make_unique<FileSink>(std::move(file), fd_, name, path);
  if (owner_.has_value() && is_temporary && fchown(fd, owner_->uid, owner_->gid) != 0) {
    return CannotWrite(path, errno);
  }
  if (name.ends_with(".gz")) return NewGzipSink(std::move(sink));
  return sink;
}

}  // namespace proftrace
