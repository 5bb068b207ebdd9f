// Recordings of Python programs that call, loop, annotate and run operators at random.
#pragma once

#include <cstdint>
#include <memory>

#include "userspace/model/timeline.h"

namespace proftrace {

// One thread, and about `spans` spans. Each span's stack is what the program ran at that moment;
// nodes of the backward pass and what lies in them have others. Times never repeat. `makes_calls`:
// a system call before each span.
std::unique_ptr<Timeline> MakePythonTimeline(uint32_t seed, uint32_t spans,
                                             bool makes_calls = false);

}  // namespace proftrace
