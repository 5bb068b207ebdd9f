// Puts the summaries of a process that a flight recorder has written in an hour, one each minute,
// into one file per table. A day has 1440 summaries, and a file of few rows consists mostly of its
// head.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

// The summaries of one process in one hour.
struct SummaryHour {
  std::vector<InputRecord> windows;  // at least two, the oldest first
};

// Returns the hours that were over at `before_s` (Unix time) and have more than one summary of a
// process.
absl::StatusOr<std::vector<SummaryHour>> HoursToCompact(const FleetDirectory& directory,
                                                        int64_t before_s);

// The files of one table for one hour.
struct TableFiles {
  std::string table;
  std::vector<std::string> paths;
};

// Joins the rows of each table's files into one file, in the order of the files. Returns the paths
// of the joined files, one for each table.
using FileJoiner =
    std::function<absl::StatusOr<std::vector<std::string>>(const std::vector<TableFiles>&)>;

// Replaces the hour's inputs by one input. If the process is killed at any moment, the directory
// has either the old inputs or the new one, so that no row is there twice. An hour that another
// process is compacting, or has changed meanwhile, is left as it is.
absl::Status CompactHour(const FleetDirectory& directory, const SummaryHour& hour,
                         const FileJoiner& join);

}  // namespace proftrace
