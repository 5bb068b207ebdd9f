// Puts what a flight recorder has of the last minute into a fleet's directory: a summary of each of
// its processes, as rows of the same tables that `fleet ingest` writes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

// Reads the capture that `capture_fd` is open on; the descriptor stays the caller's. A process that
// another recorder has summarised up to the same second is left out, which is said in `left_out`,
// a sentence each. An error leaves nothing of the process that it came at, but for one of writing.
absl::Status IngestSummary(const FleetDirectory& directory, int capture_fd,
                           const std::string& scratch_directory,
                           std::vector<std::string>* left_out);

}  // namespace proftrace
