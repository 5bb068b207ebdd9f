// Reads one input and puts its tables into a fleet's directory.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

struct IngestOptions {
  bool salvage = false;  // take what is whole of a damaged input
  std::string rank_of;   // RankPattern, of files that do not tell their rank; empty: none
  std::string scratch_directory;
};

// Returns what `path` is, without reading it; the file of a result directory is its capture. Fails
// with kUsage where there is none.
absl::StatusOr<FileStamp> StampOf(const std::string& path);

// Returns the name by which the directory knows a file of these bytes: a hash of them.
absl::StatusOr<std::string> NameOfFile(const std::string& path);

// Writes the tables of the input `path` and commits `record`, whose name, stamp and `replaces` are
// set. The caller has the lock of its name. An error leaves nothing of it, but for one of writing.
absl::Status IngestInput(const FleetDirectory& directory, const std::string& path,
                         InputRecord record, const IngestOptions& options);

}  // namespace proftrace
