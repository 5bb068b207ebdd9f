#include "exporters/sinks/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "exporters/sinks/gzip_sink.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr int kMaxTemporaryNames =
    100;  // the most leftovers of killed runs with our PID that are skipped

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

absl::Status CannotWriteInto(const std::string& path, std::string_view why) {
  std::string text = "cannot write into the directory " + path + ": ";
  return Fail(ExitCode::kOutputFailed, text.append(why) + "; choose another place with -o");
}

std::string_view ReasonOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// Blocks signals that would end the process while this object lives.
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
  UniqueFd fd;
  std::string temporary_name;  // empty: there is no name yet, or the file is written to directly
  bool is_nameless = false;
};

std::string TemporaryName(int attempt, int64_t pid = getpid()) {
  return ".proftrace-" + std::to_string(pid) + "-" + std::to_string(attempt) + ".tmp";
}

// Opens a file without a name, of which nothing is left however the program ends. This needs /proc,
// because without it the file could not get a name later.
OpenFile OpenNameless(const GuardedFolder& folder) {
  OpenFile file;
  if (access(GuardedFolder::kDescriptors, X_OK) != 0) return file;
  file.fd = folder.CreateNameless();
  file.is_nameless = file.fd.valid();
  return file;
}

OpenFile OpenNamed(const GuardedFolder& folder) {
  OpenFile file;
  for (int attempt = 0; attempt < kMaxTemporaryNames && !file.fd.valid(); ++attempt) {
    file.temporary_name = TemporaryName(attempt);
    file.fd = folder.Create(file.temporary_name, O_WRONLY);
    if (!file.fd.valid() && errno != EEXIST) break;
  }
  return file;
}

// Copies a file. Returns false after an error, and leaves the reason in `errno`.
bool CopyFile(int from, int to) {
  struct stat facts {};
  if (fstat(from, &facts) != 0) return false;
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
  FileSink(OpenFile file, const GuardedFolder* folder, std::string name, std::string path)
      : fd_(file.fd.Release()),
        folder_(folder),
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
      signals_.reset();  // a blocked signal ends the program here
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
    if (!temporary_name_.empty() && !folder_->Rename(temporary_name_, name_)) {
      const int error = errno;
      Discard();
      return CannotWrite(path_, error);
    }
    temporary_name_.clear();
    return absl::OkStatus();
  }

 private:
  // Gives the file a temporary name, because only a rename can replace another file. Returns false
  // after an error, which is in `errno`.
  bool GiveName() {
    const std::string source = GuardedFolder::kDescriptors + std::to_string(fd_);
    for (int attempt = 0; attempt < kMaxTemporaryNames; ++attempt) {
      const std::string name = TemporaryName(attempt);
      if (linkat(AT_FDCWD, source.c_str(), folder_->fd(), name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        temporary_name_ = name;
        is_nameless_ = false;
        return true;
      }
      if (errno != EEXIST) break;
    }
    // The file system, or a policy, does not let the file get a name later.
    OpenFile copy = OpenNamed(*folder_);
    if (!copy.fd.valid()) return false;
    temporary_name_ = copy.temporary_name;
    is_nameless_ = false;
    const int nameless = std::exchange(fd_, copy.fd.Release());
    const bool is_copied = CopyFile(nameless, fd_);
    const int error = errno;
    close(nameless);
    errno = error;
    return is_copied;
  }

  void Discard() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
    is_nameless_ = false;
    if (!temporary_name_.empty()) folder_->Remove(temporary_name_);
    temporary_name_.clear();
  }

  int fd_;
  const GuardedFolder* folder_;
  std::string temporary_name_;
  bool is_nameless_;
  std::string name_;
  std::string path_;
  std::optional<HeldSignals> signals_;  // while there is a temporary name that must be removed
};

bool IsDirectory(int directory_fd, const char* path) {
  struct stat here {};
  struct stat there {};
  return fstat(directory_fd, &here) == 0 && stat(path, &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

// Returns whether no file can be made in the directory, or a rename there would replace a name that
// the system needs.
bool IsOfTheSystem(int directory_fd) {
  return IsDirectory(directory_fd, "/dev") || IsDirectory(directory_fd, "/proc/self/fd");
}

// Returns a copy of the descriptor that the name stands for, a pipe (>(command) of a shell) or a
// file, which is written to directly. -1: there is none, for the reason in `errno`.
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

}  // namespace

void RemoveUnfinished(const GuardedFolder& folder, int64_t pid) {
  for (int attempt = 0; attempt < kMaxTemporaryNames; ++attempt) {
    folder.Remove(TemporaryName(attempt, pid));
  }
}

absl::StatusOr<OutputDirectory> OutputDirectory::Open(const std::string& path,
                                                      const FolderTrust& trust) {
  absl::StatusOr<GuardedFolder> folder = GuardedFolder::Open(path, trust);
  if (!folder.ok()) return CannotWriteInto(path, ReasonOf(folder.status()));
  if (const std::string why = folder->WhyNotTrusted(); !why.empty()) {
    return CannotWriteInto(path.empty() ? "." : path, why);
  }
  return OutputDirectory(*std::move(folder));
}

absl::StatusOr<OutputDirectory> OutputDirectory::OfDescriptor(int fd, const std::string& path) {
  absl::StatusOr<GuardedFolder> folder = GuardedFolder::OfDescriptor(fd, path);
  if (!folder.ok()) return CannotWriteInto(path, ReasonOf(folder.status()));
  return OutputDirectory(*std::move(folder));
}

absl::StatusOr<GuardedFolder> OutputDirectory::OpenScratch() const {
  constexpr char kShared[] = "/tmp";
  absl::StatusOr<GuardedFolder> folder =
      IsOfTheSystem(folder_.fd())
          ? GuardedFolder::Open(kShared)
          : GuardedFolder::OfDescriptor(folder_.fd(), path().empty() ? "." : path());
  return folder.ok() ? std::move(folder) : CannotWriteInto(kShared, ReasonOf(folder.status()));
}

absl::StatusOr<OutputDirectory> OutputDirectory::MakeFolder(const std::string& name,
                                                            bool* is_made) const {
  absl::StatusOr<GuardedFolder> folder = folder_.Make(name, is_made);
  const std::string place = Joined(path(), name);
  if (!folder.ok()) return CannotWriteInto(place, ReasonOf(folder.status()));
  if (const std::string why = folder->WhyNotTrusted(); !why.empty()) {
    return CannotWriteInto(place, why);
  }
  return OutputDirectory(*std::move(folder));
}

absl::StatusOr<std::unique_ptr<ByteSink>> OutputDirectory::Create(const std::string& name) const {
  const std::string place = Joined(path(), name);
  const std::optional<struct stat> existing = folder_.Find(name);
  if (existing.has_value() && S_ISDIR(existing->st_mode)) return CannotWrite(place, EISDIR);
  const bool is_channel =
      existing.has_value() && (S_ISCHR(existing->st_mode) || S_ISFIFO(existing->st_mode));
  // In a directory that all users share, anybody could have put it there to read the output.
  if (is_channel && !folder_.IsTrustedFile(*existing)) return CannotWrite(place, EPERM);

  OpenFile file;
  if (is_channel) {
    file.fd =
        UniqueFd(openat(folder_.fd(), name.c_str(), O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
  } else if (IsOfTheSystem(folder_.fd())) {
    file.fd = UniqueFd(OpenDescriptor(folder_.fd(), name));
  } else {
    file = OpenNameless(folder_);
    if (!file.fd.valid()) file = OpenNamed(folder_);
  }
  if (!file.fd.valid()) return CannotWrite(place, errno);

  std::unique_ptr<ByteSink> sink =
      std::make_unique<FileSink>(std::move(file), &folder_, name, place);
  if (name.ends_with(".gz")) return NewGzipSink(std::move(sink));
  return sink;
}

}  // namespace proftrace
