// Finds the files of a result that `proftrace view` shows, and makes missing ones.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "userspace/view/pages.h"

namespace proftrace {

struct ViewedResult {
  std::string title;
  std::optional<ViewedFile> report;
  std::optional<ViewedFile> trace;
  std::optional<ViewedFile> speedscope;
  bool has_capture = false;  // whether there is a capture, from which missing files can be made
  uid_t owner_uid = 0;
  gid_t owner_gid = 0;
};

// Opens a result directory, a capture, an archive of a result (.tar) or a trace (.json, .pftrace,
// compressed or not). Fails with kInputDamaged.
absl::StatusOr<ViewedResult> OpenViewedResult(const std::string& path);

// Makes the missing files from the capture, as files without a name, so that nothing is left of
// them however this process ends. `salvage`: whether the whole part of a damaged capture is used.
absl::Status MakeMissing(const std::string& path, bool salvage, ViewedResult* result);

}  // namespace proftrace
