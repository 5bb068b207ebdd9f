// Puts the last minute of a flight recorder into a fleet's directory: a summary of each recorded
// process, as rows of the same tables that `fleet ingest` writes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

// Reads the capture that `capture_fd` is open on; the descriptor stays the caller's. A process that
// another recorder has summarised up to the same second is left out; `left_out` receives a sentence
// for each. After an error nothing is left of the process at which it occurred, unless writing has
// failed.
absl::Status IngestSummary(const FleetDirectory& directory, int capture_fd,
                           const std::string& scratch_directory,
                           std::vector<std::string>* left_out);

}  // namespace proftrace
