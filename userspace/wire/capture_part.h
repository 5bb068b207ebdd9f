// Copies parts of a capture, which are stretches of its time, into captures of their own.
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
  RecordedSteps steps;   // the steps that lie in the part
};

// Copies each of `parts` from `reader` (opened with keep_metadata_text) to the writer with the same
// index, and finishes the writers. The parts are in order of time and do not overlap. A part gets
// the device records of its stretch and those of work that its calls asked for, however late that
// ran. Reads all records once; the cost and the kernel's losses stay those of the whole recording.
absl::Status CopyCaptureParts(std::span<const CapturePart> parts, CaptureReader* reader,
                              std::span<CaptureWriter* const> writers);

}  // namespace proftrace
