// Reads one input and puts its tables into a fleet's directory.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

struct IngestOptions {
  bool salvage = false;  // whether the whole part of a damaged input is read
  // The text of a RankPattern for files that do not tell their rank; empty: none.
  std::string rank_of;
  std::string scratch_directory;
};

// Returns the stamp of the input `path` without reading it. A result directory is represented by
// its capture. Fails with kUsage where there is no such file.
absl::StatusOr<FileStamp> StampOf(const std::string& path);

// Returns the name that the directory has for a file of these contents: a hash of its bytes.
absl::StatusOr<std::string> NameOfFile(const std::string& path);

// Writes the tables of the input `path` and commits `record`, whose name, stamp and `replaces` are
// set. The caller must hold the lock of its name. After an error nothing of the input is left,
// unless writing has failed.
absl::Status IngestInput(const FleetDirectory& directory, const std::string& path,
                         InputRecord record, const IngestOptions& options);

}  // namespace proftrace
