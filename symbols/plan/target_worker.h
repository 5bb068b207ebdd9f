// Reads a target in a worker without rights (userspace/sandbox/worker.h).
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "symbols/plan/target_answers.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// Runs `read` in a worker that may read that target, and returns its result, which must be checked
// like everything that comes from a target. Fails as RunWorker() does. Where this process is a
// worker already, just calls `read`.
absl::StatusOr<std::string> ReadInWorker(Pid pid, int64_t longest_s,
                                         const std::function<absl::StatusOr<std::string>()>& read);

}  // namespace proftrace
