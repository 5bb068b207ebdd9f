// Tells whether what was printed has come out.
#pragma once

#include <absl/status/status.h>

#include <string_view>

namespace proftrace {

// Writes what is buffered for standard output. Fails with kOutputFailed where that, or any earlier
// output, could not be written, so that a command does not seem to have succeeded. It is no error
// where the reader has closed the pipe.
absl::Status FlushStandardOutput();
// Writes `text` and all that was buffered before it. Fails as FlushStandardOutput() does.
absl::Status WriteStandardOutput(std::string_view text);

}  // namespace proftrace
