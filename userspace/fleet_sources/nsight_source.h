// Makes inputs of a merge from an export of Nsight Systems (nsys export --type sqlite): kernels,
// copies, calls of CUDA, NVTX and the OS runtime, in the words that Kineto has for them.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "userspace/collectives/source_input.h"

namespace proftrace {

// Returns one input per process, because the report of a launcher holds many. Rows on a GPU have
// the GPU's number as pid and the stream as tid. Fails with kInputDamaged where the file's tables
// lack a needed column, as those of a future version may.
absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> OpenNsightSources(
    const std::string& path);

}  // namespace proftrace
