#include "userspace/base/exit_status.h"

#include <absl/strings/cord.h>

#include <system_error>

namespace proftrace {
namespace {

constexpr char kExitCodeUrl[] = "proftrace/exit-code";
constexpr char kToldUrl[] = "proftrace/told";

absl::StatusCode NearestStatusCode(ExitCode code) {
  switch (code) {
    case ExitCode::kDone:
      return absl::StatusCode::kOk;
    case ExitCode::kUsage:
      return absl::StatusCode::kInvalidArgument;
    case ExitCode::kNoTarget:
    case ExitCode::kNoTorch:
      return absl::StatusCode::kNotFound;
    case ExitCode::kNotPermitted:
      return absl::StatusCode::kPermissionDenied;
    case ExitCode::kHostUnfit:
      return absl::StatusCode::kUnimplemented;
    case ExitCode::kOutputFailed:
      return absl::StatusCode::kUnavailable;
    case ExitCode::kInputDamaged:
    case ExitCode::kEventsLost:
      return absl::StatusCode::kDataLoss;
    case ExitCode::kInputsDisagree:
      return absl::StatusCode::kFailedPrecondition;
    case ExitCode::kBug:
      return absl::StatusCode::kInternal;
  }
  return absl::StatusCode::kInternal;
}

}  // namespace

absl::Status Fail(ExitCode code, const std::string& message) {
  absl::Status status(NearestStatusCode(code), message);
  const std::string number = std::to_string(static_cast<int>(code));
  // The number is passed as a string_view, because the overload for strings is a template, whose
  // name GCC and clang 18 mangle differently.
  status.SetPayload(kExitCodeUrl, absl::Cord(absl::string_view(number)));
  return status;
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return ExitCode::kDone;
  const auto payload = status.GetPayload(kExitCodeUrl);
  if (!payload.has_value()) return ExitCode::kBug;
  return static_cast<ExitCode>(std::stoi(std::string(*payload)));
}

absl::Status NoMoreProcesses(int error) {
  return Fail(ExitCode::kHostUnfit,
              "this host gives no more processes, threads or memory: " + ErrnoText(error) +
                  "; raise pids.max of proftrace's control group, ulimit -u, or the limits of "
                  "memory, then try again");
}

absl::Status NoMoreDescriptors(int error) {
  return Fail(ExitCode::kHostUnfit, "this host gives no more descriptors: " + ErrnoText(error) +
                                        "; raise ulimit -n, then try again");
}

absl::Status Told(absl::Status status) {
  if (!status.ok()) status.SetPayload(kToldUrl, absl::Cord());
  return status;
}

bool WasTold(const absl::Status& status) { return status.GetPayload(kToldUrl).has_value(); }

std::string ErrnoText(int error) { return std::generic_category().message(error); }

}  // namespace proftrace
