#include "userspace/model/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr char kSystemDirectory[] = "/tmp";

// NFS, FUSE and others have no files without a name.
int OpenNamedAndUnlink(const std::string& directory) {
  std::string name = directory + "/.proftrace-spill-XXXXXX";
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd >= 0) unlink(name.c_str());
  return fd;
}

int OpenIn(const std::string& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  // EISDIR: of file systems that do not know the flag.
  const bool is_unknown = fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL);
  return is_unknown ? OpenNamedAndUnlink(directory) : fd;
}

}  // namespace

absl::Status CannotSpill(const std::string& directory, int error) {
  const char* next = "name a directory that can be written in TMPDIR";
  if (error == ENOSPC || error == EDQUOT) next = "free some space there";
  if (error == EFBIG) next = "raise the limit of a file's size (ulimit -f)";
  return Fail(ExitCode::kOutputFailed,
              "cannot spill events to " + directory + ": " + ErrnoText(error) + "; " + next);
}

absl::StatusOr<SpillFile> OpenSpillFile(const std::string& directory) {
  std::vector<std::string> places;
  if (!directory.empty()) places.push_back(directory);
  if (const char* named = std::getenv("TMPDIR"); named != nullptr && *named != '\0') {
    places.emplace_back(named);
  }
  places.emplace_back(kSystemDirectory);
  int error = 0;
  for (const std::string& place : places) {
    if (const int fd = OpenIn(place); fd >= 0) return SpillFile{fd, place};
    error = errno;
  }
  return CannotSpill(places.back(), error);
}

}  // namespace proftrace
