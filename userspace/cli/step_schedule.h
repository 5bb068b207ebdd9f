// Reads --schedule, which says which steps are recorded, in the words of torch.profiler.schedule().
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
  uint64_t warmup = 0;           // not recorded, so that it has the same effect as `wait`
  uint64_t active = 0;           // at least 1
  uint64_t repeat = 0;           // the number of cycles; 0: as many as fit into the recording
  uint64_t skip_first_wait = 0;  // if not 0, the first cycle does not wait

  // Returns the position in its cycle of the first step after skip_first.
  uint64_t ahead() const { return skip_first_wait != 0 ? wait : 0; }
  // Returns the number of steps until all cycles are over; nullopt where they never end.
  std::optional<uint64_t> TotalSteps() const;
};

// Parses "skip_first=10,wait=5,warmup=1,active=3,repeat=2,skip_first_wait=1"; each key may stand
// once. Fails with kUsage.
absl::StatusOr<StepSchedule> ParseSchedule(const std::string& text);

// Returns the active steps of each cycle in which a whole step was recorded, in order. Steps are
// numbered from the first one of the recording.
std::vector<CapturePart> Cycles(const StepSchedule& schedule, const RecordedSteps& steps);

}  // namespace proftrace
