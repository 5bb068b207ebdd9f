// Compacts old summaries of flight recorders: connects the fleet's directory with the engine that
// joins the files.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "userspace/fleet_questions/engine.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

struct CompactionTotals {
  uint64_t summaries = 0;
  uint64_t inputs = 0;  // inputs that replaced these summaries
};

// Compacts each hour that has been over for `after_s` seconds. The process must have given up all
// rights beyond the user's (GiveUpRights()), because an engine is started. An hour that cannot be
// compacted stays as it is; the first error is returned after all hours were tried.
absl::StatusOr<CompactionTotals> CompactSummaries(const FleetDirectory& directory,
                                                  const EngineOptions& engine, double after_s);

}  // namespace proftrace
