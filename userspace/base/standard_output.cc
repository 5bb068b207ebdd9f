#include "userspace/base/standard_output.h"

#include <stdio_ext.h>

#include <cerrno>
#include <cstdio>

#include "userspace/base/exit_status.h"

namespace proftrace {

namespace {

// Returns what a failed write means. Nobody waits for the rest where the reader (`head`, say) has
// closed the pipe: it is dropped, so that the next one to flush finds no error.
absl::Status StatusOfFailure(int error) {
  if (error == EPIPE) {
    __fpurge(stdout);
    std::clearerr(stdout);
    return absl::OkStatus();
  }
  return Fail(ExitCode::kOutputFailed,
              "cannot write to standard output" + (error != 0 ? ": " + ErrnoText(error) : ""));
}

}  // namespace

absl::Status WriteStandardOutput(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    return StatusOfFailure(errno);
  }
  return FlushStandardOutput();
}

absl::Status FlushStandardOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  return StatusOfFailure(errno);
}

}  // namespace proftrace
