// A part of a capture as a capture of its own: what was recorded in a stretch of time.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "userspace/wire/capture_reader.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {

struct CapturePart {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;    // the first moment that is no part of it
  RecordedSteps steps;   // that lie in it
};

// Copies `part` of what `reader`, opened with keep_metadata_text, gives, to the end of `writer`.
// Of device records, those of the stretch and what its calls asked for, however late it ran.
// Reads all records; the cost and the kernel's losses stay those of the whole recording.
absl::Status CopyCapturePart(const CapturePart& part, CaptureReader* reader, CaptureWriter* writer);

}  // namespace proftrace
