// The directory of one run. It is made before anything is attached, and never overwritten silently.
// Directory and capture are kept open: so a recording survives when they are renamed or removed
// meanwhile, and a link that is put in their place is not followed (guarded_folder.h). Other
// processes get the recording by its descriptors alone.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>

#include "exporters/sinks/output_file.h"
#include "userspace/base/guarded_folder.h"
#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {

class ResultDirectory {
 public:
  struct Place {
    bool is_removed = false;
    bool is_as_asked = false;
    // Where the directory is now, or as it was asked for where that cannot be told.
    std::string path;
  };

  // Makes the directory `path`, or uses an existing one if it is empty (with `force`: even if it is
  // not). A link at the path's end is not followed, and root uses no directory that others can
  // change. Fails with kOutputFailed.
  static absl::StatusOr<ResultDirectory> Prepare(const std::string& path, bool force);
  // Prepares `name` in this directory in the same way, even if this directory has been moved.
  absl::StatusOr<ResultDirectory> PrepareIn(const std::string& name, bool force) const;

  // Creates the capture file in the directory. The caller owns the descriptor.
  absl::StatusOr<int> CreateCapture();
  // Opens the file that CreateCapture() has made, even if it has no name any more.
  absl::StatusOr<std::unique_ptr<CaptureReader>> OpenCapture(
      const CaptureReader::Options& options) const;
  absl::StatusOr<OutputDirectory> OpenForOutputs() const;
  // Returns a path for code that needs a path. It leads to this directory even if the directory has
  // been moved; empty where it was removed.
  std::string DescriptorPath() const;
  // Returns a descriptor for another process of this program. It is valid as long as this object
  // lives.
  int fd() const { return folder_->fd(); }
  int capture_fd() const { return capture_.get(); }
  void RemoveCapture() const;

  Place FindPlace() const;
  // Fails with kOutputFailed where the directory is not where it was asked for, and says where it
  // is.
  absl::Status CheckPlace() const;
  // Fails in the same way where the capture that CreateCapture() has made has lost its name in the
  // directory.
  absl::Status CheckCapture() const;

  // Removes the capture of an earlier recording, which `force` kept until now. To be called when
  // something was recorded.
  void ForgetEarlier() const;
  // Removes the directory with all its contents.
  void RemoveAll() const;
  // Removes the directory and capture that Prepare() and CreateCapture() made. To be called when
  // nothing was recorded.
  void Discard() const;

  // Returns the path as it was asked for.
  const std::string& path() const { return path_; }
  std::string capture_path() const { return path_ + "/capture.ptrec"; }

 private:
  static absl::StatusOr<ResultDirectory> PrepareAt(GuardedFolder parent, const std::string& name,
                                                   const std::string& path, bool force);
  void RemoveFolder() const;

  std::string path_;
  std::optional<GuardedFolder> parent_;  // the folder that it was made in
  std::optional<GuardedFolder> folder_;  // always has a value
  UniqueFd capture_;
  bool created_ = false;
  bool force_ = false;
};

}  // namespace proftrace
