#include "userspace/model/spill_file.h"

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/guarded_folder.h"

namespace proftrace {
namespace {

constexpr char kSystemDirectory[] = "/tmp";

absl::Status CannotSpill(const std::string& directory, const std::string& why,
                         const char* next = "name a directory that can be written in TMPDIR") {
  return Fail(ExitCode::kOutputFailed,
              "cannot spill events to " + directory + ": " + why + "; " + next);
}

}  // namespace

absl::Status CannotSpill(const std::string& directory, int error) {
  const std::string why = ErrnoText(error);
  if (error == ENOSPC || error == EDQUOT) {
    return CannotSpill(directory, why, "free some space there");
  }
  if (error == EFBIG) {
    return CannotSpill(directory, why, "raise the limit of a file's size (ulimit -f)");
  }
  return CannotSpill(directory, why);
}

absl::StatusOr<SpillFile> OpenSpillFile(const std::string& directory) {
  std::vector<std::string> places;
  if (!directory.empty()) places.push_back(directory);
  if (const char* named = std::getenv("TMPDIR"); named != nullptr && *named != '\0') {
    places.emplace_back(named);
  }
  places.emplace_back(kSystemDirectory);
  absl::Status failed;
  for (const std::string& place : places) {
    const absl::StatusOr<GuardedFolder> folder = GuardedFolder::Open(place);
    if (!folder.ok()) {
      failed = CannotSpill(place, std::string(folder.status().message()));
      continue;
    }
    UniqueFd fd = folder->CreateTemporary();
    if (fd.valid()) return SpillFile{fd.Release(), folder->path()};
    failed = CannotSpill(folder->path(), errno);
  }
  return failed;
}

}  // namespace proftrace
