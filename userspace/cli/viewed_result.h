// The files of a result that `proftrace view` shows: those that are there, and those that are made.
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
  bool has_capture = false;  // of which the missing ones can be made
  uid_t owner_uid = 0;
  gid_t owner_gid = 0;
};

// Opens a result directory, a capture, an archive of a result (.tar) or a trace (.json, .pftrace,
// compressed or not). Fails with kInputDamaged.
absl::StatusOr<ViewedResult> OpenViewedResult(const std::string& path);

// Makes what is missing and can be made of the capture, into files without a name: nothing is left
// of them, however this process ends. `salvage`: of what is whole of a damaged capture.
absl::Status MakeMissing(const std::string& path, bool salvage, ViewedResult* result);

}  // namespace proftrace
