// Finds what was open on a thread when it was sampled, and which wait a sampled waker ended.
#pragma once

#include <cstdint>
#include <optional>

#include "userspace/decode/sample_decoder.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Gives the Timeline its samples, those of the window, once all its spans have their ends; and
// times off the CPU, which it has already, the frames of their wakers.
void LinkSamples(SampleDecoder::Tables tables, int64_t window_start_ns,
                 std::optional<int64_t> window_end_ns, TimelineBuilder* timeline);

}  // namespace proftrace
