// The cycles of a schedule, cut out of the capture of the whole recording.
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

// Creates the capture of a result directory, to be written.
absl::StatusOr<std::unique_ptr<CaptureWriter>> CreateWriter(ResultDirectory* directory);

// Cuts `cycles` out of the capture in `whole` by reading it once: each into a directory cycle_N of
// its own there, which are returned. `first` is the number of the first one. The capture is read by
// a process without rights.
absl::StatusOr<std::vector<ResultDirectory>> CutCycles(std::span<const CapturePart> cycles,
                                                       size_t first, bool force,
                                                       const ResultDirectory& whole);

}  // namespace proftrace
