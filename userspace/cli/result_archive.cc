#include "userspace/cli/result_archive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/guarded_folder.h"
#include "userspace/base/tar.h"

namespace proftrace {
namespace {

namespace fs = std::filesystem;

constexpr char kPackedFirst[] = "capture.ptrec";
constexpr size_t kCopyBytes = 256u << 10;
constexpr char kArchiveEnd[2 * kTarBlockBytes] = {};
constexpr char kSuffix[] = ".tar";

absl::Status CannotWrite(const std::string& what, int error) {
  return Fail(ExitCode::kOutputFailed,
              what + ": " +
                  (error == EPIPE ? "who reads it has gone away (closed pipe)" : ErrnoText(error)));
}

// A sink for a descriptor that other code has opened.
class DescriptorSink : public ByteSink {
 public:
  explicit DescriptorSink(int fd) : fd_(fd) {}
  absl::Status Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return CannotWrite("cannot write to standard output", errno);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  int fd_;
};

// Lists the files of a result's directory, with the directories of cycles and dumps in it. Names
// are relative to the directory, captures come first, and folders end in a slash.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().lexically_relative(folder).string();
    names.push_back(entry->is_directory(error) ? name + "/" : name);
  }
  const auto rank = [](const std::string& name) { return name.ends_with(kPackedFirst) ? 0 : 1; };
  std::sort(names.begin(), names.end(), [&](const std::string& left, const std::string& right) {
    return std::pair(rank(left), left) < std::pair(rank(right), right);
  });
  return names;
}

absl::Status CopyFile(int fd, uint64_t bytes, const std::string& name, ByteSink* sink) {
  std::string part(kCopyBytes, '\0');
  for (uint64_t left = bytes; left > 0;) {
    const ssize_t count = read(fd, part.data(), std::min<uint64_t>(left, part.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return CannotWrite("cannot read " + name, count < 0 ? errno : EIO);
    absl::Status status = sink->Write({part.data(), static_cast<size_t>(count)});
    if (!status.ok()) return status;
    left -= static_cast<uint64_t>(count);
  }
  return sink->Write(std::string(TarPadding(bytes), '\0'));
}

}  // namespace

absl::StatusOr<ResultArchive> ResultArchive::Prepare(const std::string& output, bool force) {
  ResultArchive archive;
  if (output != "-") {
    archive.shown_ = archive.file_ = output;
    struct stat there {};
    if (!force && lstat(output.c_str(), &there) == 0) {
      return Fail(ExitCode::kOutputFailed,
                  "cannot write results to " + output + ": it is there (--force replaces it)");
    }
    const std::string folder = fs::path(output).parent_path().string();
    absl::StatusOr<OutputDirectory> parent = OutputDirectory::Open(folder);
    if (!parent.ok()) return parent.status();
    archive.parent_ = std::make_unique<OutputDirectory>(*std::move(parent));
    const std::string name = fs::path(output).filename().string();
    archive.top_ = name.substr(0, name.size() - (sizeof(kSuffix) - 1));
    return archive;
  }
  archive.shown_ = "the archive";
  if (isatty(STDOUT_FILENO) != 0) {
    return Fail(ExitCode::kUsage,
                "-o - writes a tar archive, which a terminal cannot show: redirect it, '> "
                "result.tar' say, or give -o result.tar");
  }
  const int flags = fcntl(STDOUT_FILENO, F_GETFL);
  archive.output_ = UniqueFd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!archive.output_.valid() || (flags & O_ACCMODE) == O_RDONLY ||
      dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return Fail(ExitCode::kOutputFailed, "-o -: standard output cannot be written, it is closed");
  }
  return archive;
}

absl::StatusOr<ResultDirectory> ResultArchive::MakeDirectory(const std::string& name) {
  if (!file_.empty()) return ResultDirectory::Prepare(file_ + ".partial", /*force=*/false);
  top_ = name;
  std::vector<std::string> places;
  if (const char* named = std::getenv("TMPDIR"); named != nullptr) places.emplace_back(named);
  // The last places are for containers that contain nothing but the program.
  places.insert(places.end(), {"/var/tmp", "/tmp", ".", "/dev/shm"});
  std::optional<absl::Status> first;
  for (const std::string& place : places) {
    if (access(place.c_str(), W_OK | X_OK) != 0) continue;
    absl::StatusOr<ResultDirectory> directory =
        ResultDirectory::Prepare((fs::path(place) / name).string(), /*force=*/false);
    if (directory.ok()) return directory;
    if (!first.has_value()) first = directory.status();
  }
  if (first.has_value()) return *first;
  return Fail(ExitCode::kOutputFailed,
              "-o - needs a directory in which the result is made before it is sent. None of "
              "TMPDIR, /var/tmp, /tmp, the current directory and /dev/shm can be written; set "
              "TMPDIR to a directory that can");
}

absl::StatusOr<std::unique_ptr<ByteSink>> ResultArchive::OpenSink() {
  if (file_.empty()) return std::make_unique<DescriptorSink>(output_.get());
  return parent_->Create(fs::path(file_).filename().string());
}

absl::Status ResultArchive::Write(const ResultDirectory& directory, ByteSink* sink) const {
  const std::string folder = directory.DescriptorPath();
  for (const std::string& name : NamesIn(folder)) {
    const UniqueFd fd(open((folder + "/" + name).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!fd.valid() || fstat(fd.get(), &info) != 0)
      return CannotWrite("cannot read " + name, errno);
    TarHead head{.name = top_ + "/" + name,
                 .bytes = static_cast<uint64_t>(info.st_size),
                 .mode = S_ISDIR(info.st_mode) ? 0755u : 0644u,
                 .time_s = info.st_mtime,
                 .is_folder = S_ISDIR(info.st_mode)};
    if (head.is_folder) head.bytes = 0;
    const std::string block = TarBlockOf(head);
    if (block.empty()) return CannotWrite("cannot pack " + name, ENAMETOOLONG);
    absl::Status status = sink->Write(block);
    if (status.ok() && !head.is_folder) status = CopyFile(fd.get(), head.bytes, name, sink);
    if (!status.ok()) return status;
  }
  absl::Status status = sink->Write({kArchiveEnd, sizeof(kArchiveEnd)});
  return status.ok() ? sink->Finish() : status;
}

absl::Status ResultArchive::Finish(const ResultDirectory& directory) {
  const ResultDirectory::Place place = directory.FindPlace();
  if (place.is_removed) return directory.CheckPlace();
  absl::StatusOr<std::unique_ptr<ByteSink>> sink = OpenSink();
  absl::Status status = sink.status();
  if (status.ok()) status = Write(directory, sink->get());
  if (!status.ok()) {
    return Fail(ExitCode::kOutputFailed,
                std::string(status.message()) + "; everything that was written is in " +
                    place.path + ": give that directory to 'proftrace export' instead of " +
                    shown_);
  }
  directory.RemoveAll();
  return absl::OkStatus();
}

}  // namespace proftrace
