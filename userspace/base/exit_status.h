// Errors of proftrace: an absl::Status whose message is one clear sentence for the user, and the
// exit code that it leads to. The codes are part of the interface (docs/reference/exit-codes.md).
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

// Returns an error that ends the program with `code`. `message`: one sentence: what happened, with
// what, what to do next.
absl::Status Fail(ExitCode code, const std::string& message);

// Returns the exit code of `status`: kDone when ok, kBug when it was not made by Fail().
ExitCode ExitCodeOf(const absl::Status& status);

// Return kHostUnfit: what fork() and pipe() fail with, given their errno value.
absl::Status NoMoreProcesses(int error);
absl::Status NoMoreDescriptors(int error);

// Returns the same error, marked as one that the user has been told already.
absl::Status Told(absl::Status status);
bool WasTold(const absl::Status& status);

// "…: No such file or directory", for the errno value `error`.
std::string ErrnoText(int error);

}  // namespace proftrace
