// Puts all inputs of a fleet's directory on one clock, a job at a time, and writes the tables whose
// times are compared across ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/fleet/merged_clock.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

struct AlignedJob {
  std::string job;  // empty: not known
  size_t ranks = 0;
  std::optional<int32_t> world_size;
  ClockStatement clock;
  std::vector<std::string> remarks;  // sentences
  // Why it is not aligned. Its rows have their hosts' wall clocks, or, where `is_left_out`, are in
  // none of the tables.
  std::string problem;
  bool is_left_out = false;
};

struct Alignment {
  std::vector<AlignedJob> jobs;
  std::vector<InputRecord> missing;  // inputs that are not whole
  uint64_t inputs = 0;
  uint64_t steps = 0;
  uint64_t collectives = 0;
  uint64_t unmatched = 0;  // of these

  std::string ToJson() const;
};

// Writes DIR/aligned. The memory is that of all inputs' facts. ExitCode::kUsage: the directory has
// no input. A job that cannot be aligned is no error: AlignedJob::problem.
absl::StatusOr<Alignment> AlignFleet(const FleetDirectory& directory,
                                     const MergedClockOptions& options);

// Whether DIR/aligned has all inputs that the directory has, and no other.
absl::StatusOr<bool> IsAlignmentCurrent(const FleetDirectory& directory);

}  // namespace proftrace
