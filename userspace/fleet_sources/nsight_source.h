// An export of Nsight Systems (nsys export --type sqlite) as an input of a merge: kernels, copies,
// calls of CUDA, NVTX and the OS runtime, in the words that Kineto has for them.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "userspace/collectives/source_input.h"

namespace proftrace {

// Gives one input a process: reports of launchers hold many. Rows on a GPU have its number as pid
// and the stream as tid. Fails with kInputDamaged where the file's tables lack what is needed, as
// those of a version to come may.
absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> OpenNsightSources(
    const std::string& path);

}  // namespace proftrace
