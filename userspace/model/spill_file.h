// A temporary file without a name, for what does not fit in memory.
#pragma once

#include <absl/status/statusor.h>

#include <string>

namespace proftrace {

struct SpillFile {
  int fd = -1;
  std::string directory;  // the folder in which the file lies
};

// Opens a file in the first of `directory`, $TMPDIR and /tmp that accepts one
// (GuardedFolder::Open()). The file is closed on exec. Fails with ExitCode::kOutputFailed.
absl::StatusOr<SpillFile> OpenSpillFile(const std::string& directory);

// Says why a spill file could not be made or grow in `directory`.
absl::Status CannotSpill(const std::string& directory, int error);

}  // namespace proftrace
