// The directory of one run. Made before anything is attached; never overwritten silently.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "userspace/model/ids.h"

namespace proftrace {

class ResultDirectory {
 public:
  // Makes `path`, or takes it when it is empty (`force`: also when it is not). A link at its end is
  // not followed. Fails with kOutputFailed.
  static absl::StatusOr<ResultDirectory> Prepare(const std::string& path, bool force);

  // Creates the capture file in it; the descriptor is the caller's.
  absl::StatusOr<int> CreateCapture() const;

  // When something was recorded: an earlier recording's capture (`force`) is let go.
  void ForgetEarlier() const;
  // Removes what Prepare() and CreateCapture() made, when nothing was recorded.
  void Discard() const;

  const std::string& path() const { return path_; }
  std::string capture_path() const { return path_ + "/capture.ptrec"; }

 private:
  std::string path_;
  bool created_ = false;
  bool force_ = false;
};

// "proftrace-python3-4711-20261121T120000Z", with the characters of `comm` that a file name should
// not have replaced.
std::string DefaultResultName(const std::string& comm, Pid pid);

}  // namespace proftrace
