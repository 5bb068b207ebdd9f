// Decides which thread may make calls for us. A return frame is written below its stack pointer
// (remote_calls.h), and there a handler on a small alternate stack, a coroutine or a goroutine may
// have the program's data.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/inject/stopped_threads.h"

namespace proftrace {

// The most bytes that a return frame and its vector state take: the state has 11 KiB with AMX.
inline constexpr uint64_t kReturnFrameRoom = 16384;

// Whether the thread's stack pointer lies in a mapping that can only be a stack, and has
// kReturnFrameRoom below it: the process's first stack, or a mapping above a page that nobody may
// touch (pthread_create).
bool StandsOnItsOwnStack(const StoppedThread& thread, const std::vector<Mapping>& mappings);

}  // namespace proftrace
