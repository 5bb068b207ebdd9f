// The sinks that exporters write to, and files that appear whole or not at all.
//
// A file is written without a name (O_TMPFILE), or with a temporary name beside its own where the
// file system has no files without names. It gets its name when it is finished. So nobody reads
// half a trace, a failed run leaves an older file as it was, and a run that a signal ends leaves
// nothing else. Links are never followed: neither by the temporary file (O_EXCL) nor by the rename.
// Character devices, pipes and /dev/stdout are written to directly.
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

// Takes bytes in order, from one thread. Without Finish() the written bytes are thrown away.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // Errors end the program with ExitCode::kOutputFailed; after one, nothing more may be written.
  virtual absl::Status Write(std::string_view bytes) = 0;
  virtual absl::Status Finish() = 0;
};

// Collects the written bytes in memory, for standard output and for tests.
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

// Removes files that a killed process left because it could no longer rename them.
void RemoveUnfinished(const GuardedFolder& folder, int64_t pid);

// A directory for outputs. It is kept open, so that all files go into it even if its path is
// renamed meanwhile.
class OutputDirectory {
 public:
  // Opens a directory. `path` must exist; empty = the current directory. Fails for root where
  // others can change the directory (GuardedFolder::WhyNotTrusted()).
  static absl::StatusOr<OutputDirectory> Open(const std::string& path,
                                              const FolderTrust& trust = FolderTrust::OfProcess());
  // Returns the directory that `fd` is open on, wherever that is by now. The caller keeps `fd`.
  // `path` is for messages.
  static absl::StatusOr<OutputDirectory> OfDescriptor(int fd, const std::string& path);

  // Starts the file `name` (no slash in it). The file is gzip-compressed where the name ends in
  // ".gz". The sink must not outlive this.
  absl::StatusOr<std::unique_ptr<ByteSink>> Create(const std::string& name) const;

  // Opens the directory `name` in this one, and makes it where it is missing. `is_made` tells
  // whether it was made.
  absl::StatusOr<OutputDirectory> MakeFolder(const std::string& name, bool* is_made) const;
  // Removes a directory if it is empty.
  void RemoveFolder(const std::string& name) const { (void)folder_.RemoveFolder(name); }

  const std::string& path() const { return folder_.path(); }
  // Opens a folder for temporary files: this directory, or /tmp where this directory is /dev.
  absl::StatusOr<GuardedFolder> OpenScratch() const;

 private:
  explicit OutputDirectory(GuardedFolder folder) : folder_(std::move(folder)) {}

  GuardedFolder folder_;
};

}  // namespace proftrace
