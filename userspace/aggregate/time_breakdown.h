// Splits the time of the thread that drives the job into computing and the kinds of waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

enum class TimeUse : uint8_t {
  kCompute = 0,   // on a CPU, in the program itself
  kData = 1,      // off the CPU, waiting for a batch of torch's DataLoader
  kIo = 2,        // in system calls that move or look for bytes of files and the network
  kLock = 3,      // off the CPU, for a lock that another thread holds
  kEvent = 4,     // off the CPU, for anything else of another thread: work in a queue, say
  kRunQueue = 5,  // it could run, and had no CPU
  kFaults = 6,    // in page faults
  kOther = 7,     // in other system calls, or off the CPU for other reasons (sleep, poll, a child)
};
inline constexpr size_t kTimeUses = 8;

// Returns the name of the use: "compute", "data", "io", "lock", "event", "run_queue", "faults" or
// "other".
std::string_view TimeUseName(TimeUse use);

using TimeUses = std::array<int64_t, kTimeUses>;  // ns; the sum is the whole time

struct TimeBreakdown {
  ThreadIndex thread{};
  int64_t total_ns = 0;
  TimeUses uses{};
  std::vector<TimeUses> steps;  // for each step of the main process; empty: only the whole window
};

// Returns whether the scheduler was recorded to the end and without a loss. Otherwise the times of
// waits are not known.
bool IsSchedulerWhole(const Timeline& timeline);

// Returns the main thread of the first process whose main thread is in the timeline; nullopt: there
// is none.
std::optional<ThreadIndex> FindMainThread(const Timeline& timeline);

// Breaks the time down; nullopt: the scheduler was not recorded, or records were lost.
std::optional<TimeBreakdown> BreakTimeDown(const Timeline& timeline, const Steps& steps);

}  // namespace proftrace
