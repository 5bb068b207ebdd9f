// Which thread may make calls for us: a return frame is written below its stack pointer
// (remote_calls.h), where a handler on a small alternate stack, a coroutine or a goroutine may have
// the program's data.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/inject/stopped_threads.h"

namespace proftrace {

// The most that a return frame and its vector state take: 11 KiB of state with AMX.
inline constexpr uint64_t kReturnFrameRoom = 16384;

// Whether the thread's stack pointer lies in a mapping that can only be a stack, the process's
// first one or one with a page below it that nobody may touch (pthread_create), with so much room.
bool StandsOnItsOwnStack(const StoppedThread& thread, const std::vector<Mapping>& mappings);

}  // namespace proftrace
