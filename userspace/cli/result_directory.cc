#include "userspace/cli/result_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr const char* kCapture = "capture.ptrec";
constexpr const char* kEarlierCapture = ".capture.ptrec.earlier";

absl::Status DirectoryError(const std::string& path, const std::string& what) {
  return Fail(ExitCode::kOutputFailed,
              "cannot write results to " + path + ": " + what + "; give another one with -o");
}

absl::Status DirectoryError(const std::string& path, const absl::Status& why) {
  return DirectoryError(path, std::string(why.message()));
}

// Returns whether `name`, which is not followed as a link, is the file that `facts` describe.
bool LeadsTo(int parent, const std::string& name, const struct stat& facts) {
  struct stat there {};
  return fstatat(parent, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         there.st_dev == facts.st_dev && there.st_ino == facts.st_ino;
}

}  // namespace

absl::StatusOr<ResultDirectory> ResultDirectory::PrepareAt(GuardedFolder parent,
                                                           const std::string& name,
                                                           const std::string& path, bool force) {
  ResultDirectory result;
  result.path_ = path;
  result.force_ = force;
  absl::StatusOr<GuardedFolder> folder = parent.Make(name, &result.created_);
  if (!folder.ok()) return DirectoryError(path, folder.status());
  result.parent_ = std::move(parent);
  result.folder_ = *std::move(folder);
  if (faccessat(result.fd(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    return DirectoryError(path, ErrnoText(errno));
  }
  // Even a new directory is checked, because another process that can write beside it may have
  // exchanged it.
  if (!force && !result.folder_->IsEmpty()) {
    return DirectoryError(path, "it is not empty (--force writes into it all the same)");
  }
  return result;
}

absl::StatusOr<ResultDirectory> ResultDirectory::Prepare(const std::string& path, bool force) {
  std::string bare = path;
  while (bare.size() > 1 && bare.back() == '/') bare.pop_back();
  std::string name;
  absl::StatusOr<GuardedFolder> parent = GuardedFolder::OpenParent(bare, &name);
  if (!parent.ok()) return DirectoryError(bare, parent.status());
  return PrepareAt(*std::move(parent), name, bare, force);
}

absl::StatusOr<ResultDirectory> ResultDirectory::PrepareIn(const std::string& name,
                                                           bool force) const {
  const std::string path = FindPlace().path;
  absl::StatusOr<GuardedFolder> parent = GuardedFolder::OfDescriptor(fd(), path);
  if (!parent.ok()) return DirectoryError(path, parent.status());
  return PrepareAt(*std::move(parent), name, path + "/" + name, force);
}

absl::StatusOr<int> ResultDirectory::CreateCapture() {
  // An earlier capture is kept until something was recorded.
  if (force_) folder_->Rename(kCapture, kEarlierCapture);
  UniqueFd fd = folder_->Create(kCapture, O_RDWR);
  if (!fd.valid()) return DirectoryError(path_, ErrnoText(errno));
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
  return OutputDirectory::OfDescriptor(fd(), FindPlace().path);
}

std::string ResultDirectory::DescriptorPath() const {
  return FindPlace().is_removed ? "" : folder_->DescriptorPath();
}

void ResultDirectory::RemoveCapture() const { folder_->Remove(kCapture); }

ResultDirectory::Place ResultDirectory::FindPlace() const {
  Place place;
  place.path = path_;
  struct stat own {};
  if (fstat(fd(), &own) != 0) return place;
  place.is_as_asked = LeadsTo(AT_FDCWD, path_, own);
  if (place.is_as_asked) return place;
  const std::string name = PathOfDescriptor(fd());
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
  if (fstat(capture_.get(), &own) == 0 && LeadsTo(fd(), kCapture, own)) {
    return absl::OkStatus();
  }
  return Fail(ExitCode::kOutputFailed, capture_path() +
                                           " was removed while recording; the other results were "
                                           "made of what was recorded");
}

void ResultDirectory::ForgetEarlier() const {
  if (force_) folder_->Remove(kEarlierCapture);
}

void ResultDirectory::RemoveAll() const {
  folder_->RemoveContents();
  RemoveFolder();
}

void ResultDirectory::Discard() const {
  if (capture_.valid()) RemoveCapture();
  if (force_) folder_->Rename(kEarlierCapture, kCapture);
  if (created_) RemoveFolder();
}

void ResultDirectory::RemoveFolder() const {
  // The directory is empty. It is removed only under the name that this program gave it; where
  // somebody has renamed it, it stays.
  struct stat own {};
  const std::string name = path_.substr(path_.rfind('/') + 1);
  if (fstat(fd(), &own) == 0 && LeadsTo(parent_->fd(), name, own)) parent_->RemoveFolder(name);
}

}  // namespace proftrace
