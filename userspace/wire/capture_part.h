// Parts of a capture as captures of their own: what was recorded in stretches of time.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>

#include "userspace/wire/capture_reader.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {

struct CapturePart {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;    // the first moment that is no part of it
  RecordedSteps steps;   // that lie in it
};

// Copies each of `parts`, which lie behind one another, out of what `reader` (opened with
// keep_metadata_text) gives, to the end of the writer in the same place. A part gets the device
// records of its stretch and of what its calls asked for, however late that ran. Reads all records
// once; the cost and the kernel's losses stay those of the whole recording.
absl::Status CopyCaptureParts(std::span<const CapturePart> parts, CaptureReader* reader,
                              std::span<CaptureWriter* const> writers);

}  // namespace proftrace
