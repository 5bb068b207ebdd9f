// Puts all inputs of a fleet's directory on one clock, one job at a time, and writes the tables
// whose times are compared across ranks.
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
  // Why the job is not aligned; empty where it is. Its rows have the times of their hosts' wall
  // clocks or, with `is_left_out`, are not in the tables.
  std::string problem;
  bool is_left_out = false;
};

struct Alignment {
  std::vector<AlignedJob> jobs;
  std::vector<InputRecord> missing;  // inputs that are not completely in the directory
  uint64_t inputs = 0;
  uint64_t steps = 0;
  uint64_t collectives = 0;
  uint64_t unmatched = 0;  // collectives that were not matched with another rank's

  std::string ToJson() const;
};

// Writes DIR/aligned. Needs memory for the facts of all inputs. Fails with ExitCode::kUsage where
// the directory has no input. A job that cannot be aligned is no error; see AlignedJob::problem.
absl::StatusOr<Alignment> AlignFleet(const FleetDirectory& directory,
                                     const MergedClockOptions& options);

// Returns whether DIR/aligned was made from exactly the inputs that the directory has.
absl::StatusOr<bool> IsAlignmentCurrent(const FleetDirectory& directory);

}  // namespace proftrace
