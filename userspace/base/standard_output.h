// Tells whether what was printed has come out.
#pragma once

#include <absl/status/status.h>

namespace proftrace {

// Writes what is buffered for standard output. Fails with kOutputFailed where that, or any earlier
// output, could not be written, so that a command does not seem to have succeeded. It is no error
// where the reader has closed the pipe.
absl::Status FlushStandardOutput();

}  // namespace proftrace
