// Cuts the cycles of a schedule out of the capture of the whole recording.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "userspace/cli/result_directory.h"
#include "userspace/wire/capture_part.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {

// Creates the capture of a result directory, and returns its writer.
absl::StatusOr<std::unique_ptr<CaptureWriter>> CreateWriter(ResultDirectory* directory);

// Cuts `cycles` out of the capture in `whole`, reading it once. Each cycle gets a directory cycle_N
// in `whole`; N begins with `first`. Returns these directories. The capture is read by a process
// without rights.
absl::StatusOr<std::vector<ResultDirectory>> CutCycles(std::span<const CapturePart> cycles,
                                                       size_t first, bool force,
                                                       const ResultDirectory& whole);

}  // namespace proftrace
