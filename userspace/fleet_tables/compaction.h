// Puts the summaries that a flight recorder has written of a process in an hour, a minute after the
// other, into one file a table. A day has 1440 of them, and a file of few rows is mostly its head.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

// Summaries of one process and hour that stand beside each other, the oldest first.
struct SummaryHour {
  std::vector<InputRecord> windows;  // two at least
};

// Returns the hours that were over at `before_s` (Unix time) and have more than one summary of a
// process.
absl::StatusOr<std::vector<SummaryHour>> HoursToCompact(const FleetDirectory& directory,
                                                        int64_t before_s);

// The files that one table has of an hour.
struct TableFiles {
  std::string table;
  std::vector<std::string> paths;
};

// Puts the rows of each table's files into one file, in their order, and returns the paths of
// these, a table each.
using FileJoiner =
    std::function<absl::StatusOr<std::vector<std::string>>(const std::vector<TableFiles>&)>;

// Puts one input in the place of the hour's. Killed at any moment, the directory has either: rows
// are there once. An hour that somebody else is at, or has changed meanwhile, is left as it is.
absl::Status CompactHour(const FleetDirectory& directory, const SummaryHour& hour,
                         const FileJoiner& join);

}  // namespace proftrace
