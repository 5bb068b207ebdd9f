// Where exporters write: a sink for bytes, and files that appear whole or not at all.
//
// A file is written without a name (O_TMPFILE), or under a temporary one beside its own where the
// file system knows no such files, and renamed when it is finished, so that nobody reads half a
// trace, a failed run leaves an older file as it was, and one that a signal ends leaves nothing
// else. Links are never followed: neither by the temporary file (O_EXCL) nor by the rename. A
// character device, a pipe or /dev/stdout is written to as it is.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "userspace/base/guarded_folder.h"

namespace proftrace {

// Takes bytes in order. One thread. Without Finish() what was written is thrown away.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // Errors end the program with ExitCode::kOutputFailed; after one, nothing more may be written.
  virtual absl::Status Write(std::string_view bytes) = 0;
  virtual absl::Status Finish() = 0;
};

// Collects what is written; for standard output and for tests.
class StringSink : public ByteSink {
 public:
  absl::Status Write(std::string_view bytes) override {
    text_ += bytes;
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Removes what a process that was killed has left of files that were about to get their names.
void RemoveUnfinished(const GuardedFolder& folder, int64_t pid);

// A directory that outputs go into. Keeps it open: its files stay in it even if its path is renamed
// meanwhile.
class OutputDirectory {
 public:
  // `path` must exist; empty = the current directory. Root writes into none that others can change:
  // GuardedFolder::WhyNotTrusted().
  static absl::StatusOr<OutputDirectory> Open(const std::string& path,
                                              const FolderTrust& trust = FolderTrust::OfProcess());
  // Returns the one that `fd` is open on, wherever it is by now; `fd` stays the caller's. `path` is
  // for messages.
  static absl::StatusOr<OutputDirectory> OfDescriptor(int fd, const std::string& path);

  // Starts the file `name` (no slash in it). It is gzip when the name ends in ".gz". The sink must
  // not outlive this.
  absl::StatusOr<std::unique_ptr<ByteSink>> Create(const std::string& name) const;

  // Opens the directory `name` in it, which is made where it is missing; `is_made` tells of that.
  absl::StatusOr<OutputDirectory> MakeFolder(const std::string& name, bool* is_made) const;
  // Takes a directory away again, if it is empty.
  void RemoveFolder(const std::string& name) const { (void)folder_.RemoveFolder(name); }

  const std::string& path() const { return folder_.path(); }
  // Opens a place for files that are no outputs yet: the directory itself, or /tmp where it is
  // /dev.
  absl::StatusOr<GuardedFolder> OpenScratch() const;

 private:
  explicit OutputDirectory(GuardedFolder folder) : folder_(std::move(folder)) {}

  GuardedFolder folder_;
};

}  // namespace proftrace
