// Finds what was open on a thread when it was sampled, and which wait a sampled waker ended.
#pragma once

#include <cstdint>
#include <optional>

#include "userspace/decode/sample_decoder.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Adds the samples in the window to the timeline, and adds the frames of wakers to the times off
// the CPU that the timeline already has. To be called when all spans have their ends.
void LinkSamples(SampleDecoder::Tables tables, int64_t window_start_ns,
                 std::optional<int64_t> window_end_ns, TimelineBuilder* timeline);

}  // namespace proftrace
