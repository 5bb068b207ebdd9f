// Reading of a target by a worker without rights (userspace/sandbox/worker.h).
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "symbols/plan/target_answers.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// Runs `read` in a worker that may read that target. What it returns must be checked as anything
// that comes from there; the status is that of RunWorker(). In a worker `read` is just called.
absl::StatusOr<std::string> ReadInWorker(Pid pid, int64_t longest_s,
                                         const std::function<absl::StatusOr<std::string>()>& read);

}  // namespace proftrace
