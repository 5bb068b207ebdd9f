#include "userspace/base/standard_output.h"

#include <cerrno>
#include <cstdio>

#include "userspace/base/exit_status.h"

namespace proftrace {

absl::Status FlushStandardOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  if (errno == EPIPE) return absl::OkStatus();
  return Fail(ExitCode::kOutputFailed,
              "cannot write to standard output" + (errno != 0 ? ": " + ErrnoText(errno) : ""));
}

}  // namespace proftrace
