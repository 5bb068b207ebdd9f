// --schedule: which steps are recorded, as torch.profiler.schedule() says it.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/wire/capture_part.h"

namespace proftrace {

struct StepSchedule {
  uint64_t skip_first = 0;
  uint64_t wait = 0;
  uint64_t warmup = 0;           // recorded by no tool of ours, so the same as to wait
  uint64_t active = 0;           // at least 1
  uint64_t repeat = 0;           // cycles; 0 = as long as the recording lasts
  uint64_t skip_first_wait = 0;  // not 0: the first cycle does not wait

  // Returns how far into its cycle the first step after skip_first is.
  uint64_t ahead() const { return skip_first_wait != 0 ? wait : 0; }
  // Returns the steps until all cycles are over; nullopt when they never are.
  std::optional<uint64_t> TotalSteps() const;
};

// "skip_first=10,wait=5,warmup=1,active=3,repeat=2,skip_first_wait=1", each at most once. Fails
// with kUsage.
absl::StatusOr<StepSchedule> ParseSchedule(const std::string& text);

// Returns the cycles of which a whole step was recorded, in order: their active steps, numbered
// from the recording's first one.
std::vector<CapturePart> Cycles(const StepSchedule& schedule, const RecordedSteps& steps);

}  // namespace proftrace
