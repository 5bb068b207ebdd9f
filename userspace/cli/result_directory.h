// The directory of one run. Made before anything is attached; never overwritten silently. It is
// kept open, and so is the capture in it: what happens to their names meanwhile costs no recording,
// and a link that is put in their place is not followed (guarded_folder.h). Others find out what
// was recorded by its descriptors alone.
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
    std::string path;  // where it is; as it was asked for, where that cannot be told
  };

  // Makes `path`, or takes it when it is empty (`force`: also when it is not). A link at its end is
  // not followed, and root takes none that others can change. Fails with kOutputFailed.
  static absl::StatusOr<ResultDirectory> Prepare(const std::string& path, bool force);
  // Prepares `name` in this directory in the same way, wherever this is by now.
  absl::StatusOr<ResultDirectory> PrepareIn(const std::string& name, bool force) const;

  // Creates the capture file in it; the descriptor is the caller's.
  absl::StatusOr<int> CreateCapture();
  // Opens what CreateCapture() has made, whether or not it still has a name.
  absl::StatusOr<std::unique_ptr<CaptureReader>> OpenCapture(
      const CaptureReader::Options& options) const;
  absl::StatusOr<OutputDirectory> OpenForOutputs() const;
  // Returns a path for what takes nothing else; it leads here wherever this is by now. Empty when
  // it was removed.
  std::string DescriptorPath() const;
  // Returns a descriptor for another process of this program: good for as long as this lives.
  int fd() const { return folder_->fd(); }
  int capture_fd() const { return capture_.get(); }
  void RemoveCapture() const;

  Place FindPlace() const;
  // Fails with kOutputFailed, and says where it is, unless it is where it was asked for.
  absl::Status CheckPlace() const;
  // Fails in the same way unless the capture that CreateCapture() has made has its name in it.
  absl::Status CheckCapture() const;

  // Lets an earlier recording's capture (`force`) go. To be called when something was recorded.
  void ForgetEarlier() const;
  // Removes it with all that is in it.
  void RemoveAll() const;
  // Removes what Prepare() and CreateCapture() made, when nothing was recorded.
  void Discard() const;

  // Returns the path as it was asked for.
  const std::string& path() const { return path_; }
  std::string capture_path() const { return path_ + "/capture.ptrec"; }

 private:
  static absl::StatusOr<ResultDirectory> PrepareAt(GuardedFolder parent, const std::string& name,
                                                   const std::string& path, bool force);
  void RemoveFolder() const;

  std::string path_;
  std::optional<GuardedFolder> parent_;  // that it was made in
  std::optional<GuardedFolder> folder_;  // never none
  UniqueFd capture_;
  bool created_ = false;
  bool force_ = false;
};

}  // namespace proftrace
