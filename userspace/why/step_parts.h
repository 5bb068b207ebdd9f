// Splits the time of a job's steps, on the thread that drives them, into parts that do not overlap:
// each moment belongs to exactly one part, so that the parts add up to the time from the begin of
// the first step to the end of the last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/aggregate/steps.h"
#include "userspace/aggregate/time_breakdown.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The parts, in order of precedence: where several apply to a moment, the first one counts. Only
// kRunQueue comes before all others: whatever a thread without a CPU is in, that does not delay it.
enum class StepPart : uint8_t {
  // In a row of torch's DataLoader that gets the next batch, whatever the thread does there.
  kData = 0,
  kCollection,     // in a row of Python's garbage collector
  kCollective,     // blocked while a collective of the process was under way
  kRunQueue,       // it could run, and had no CPU
  kFaults,         // in page faults
  kRecording,      // proftrace wrote the record of a fault, a system call or a time off the CPU
  kLock,           // off the CPU, for a lock, Python's own (the GIL) among them
  kEvent,          // off it, for another thread to do something
  kIo,             // in calls that move or look for bytes of files and the network
  kOther,          // in other system calls, or off the CPU for other reasons: sleep, poll, a child
  kSynchronizing,  // in a call of CUDA that waits
  kOperators,      // in an operator or autograd row, in none of the above
  kPython,         // in no row but annotations; where the scheduler was not recorded, also waits
  kBetween,        // between two steps: checkpoints, evaluations, whatever is no step
};
inline constexpr size_t kStepParts = 14;

// Returns the name of the part: "data", "collection", "collective", "run_queue" and so on.
std::string_view StepPartName(StepPart part);
// Returns a description for readers who have not read docs/reference/why.md: "waits for the
// DataLoader".
std::string_view StepPartText(StepPart part);

// Starts and ends in CLOCK_MONOTONIC; in order, without overlaps.
using TimeIntervals = std::vector<std::pair<int64_t, int64_t>>;

using PartTimes = std::array<int64_t, kStepParts>;  // ns

// A stretch of the thread's time that belongs to one part.
struct PartMoment {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;
  uint32_t step = 0;  // an index into StepParts::intervals; for kBetween: the step before
  StepPart part = StepPart::kPython;
};

struct StepParts {
  Pid pid{};
  ThreadIndex thread{};
  bool are_steps = false;   // false: no steps were found, and the window stands for one
  bool has_kernel = false;  // the scheduler was recorded without a loss: waits are told apart
  TimeIntervals intervals;  // the steps
  std::vector<PartTimes> by_step;
  PartTimes between{};  // the time of kBetween by what the thread did in it
  PartTimes sum{};
  int64_t total_ns = 0;
  std::vector<PartMoment> moments;  // in order, without overlaps

  int64_t of(StepPart part) const { return sum[static_cast<size_t>(part)]; }
  // Returns the moment that the time lies in; nullptr: in no step.
  const PartMoment* At(int64_t time_ns) const;
  // Returns the step that the time lies in, an index into `intervals`; nullopt: none.
  std::optional<size_t> StepAt(int64_t time_ns) const;
  // Returns the time of each part that lies in these intervals.
  PartTimes TimesIn(const TimeIntervals& times) const;
  bool IsIn(StepPart part, int64_t time_ns) const {
    const PartMoment* moment = At(time_ns);
    return moment != nullptr && moment->part == part;
  }
};

// Splits the time of the steps. nullopt: the recording has no thread, or no time. Memory: some
// words for each row at the top level of the thread and for each of its events.
std::optional<StepParts> SplitSteps(const Timeline& timeline, const Steps& steps);
// Does the same without the steps that began while the recording itself still started, where there
// are enough others.
std::optional<StepParts> SplitSettledSteps(const Timeline& timeline, const Steps& steps);

}  // namespace proftrace
