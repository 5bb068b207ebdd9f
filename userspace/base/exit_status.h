// Makes the errors of proftrace. An error is an absl::Status with a message, one clear sentence for
// the user, and with the exit code to which it leads. The codes are part of the interface
// (docs/reference/exit-codes.md).
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <string>

namespace proftrace {

enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,            // the command line is wrong
  kNoTarget = 3,         // no such process, or it ended before anything was recorded
  kNotPermitted = 4,     // a capability is missing
  kNoTorch = 5,          // no libtorch in the target, or nothing could be resolved in it
  kHostUnfit = 6,        // this kernel cannot do it
  kOutputFailed = 7,     // an output could not be written
  kInputDamaged = 8,     // a capture given as input is damaged or too new
  kEventsLost = 9,       // --strict, and events were lost
  kInputsDisagree = 10,  // inputs that are whole do not belong on one timeline
  kBug = 70,             // a bug of ours
};

// Returns an error that ends the program with `code`. `message`: one sentence that says what
// happened, to which object, and what to do next.
absl::Status Fail(ExitCode code, const std::string& message);

// Returns the exit code of `status`: kDone where it is ok, kBug where it was not made by Fail().
ExitCode ExitCodeOf(const absl::Status& status);

// Return the errors (kHostUnfit) for a fork() or pipe() that failed with the errno value `error`.
absl::Status NoMoreProcesses(int error);
absl::Status NoMoreDescriptors(int error);

// Returns the same error with the mark that its message was shown to the user already.
absl::Status Told(absl::Status status);
bool WasTold(const absl::Status& status);

// Returns the text for the errno value `error`: "No such file or directory".
std::string ErrnoText(int error);

}  // namespace proftrace
