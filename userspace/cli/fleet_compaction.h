// Puts old summaries of flight recorders together: the directory's side and the engine's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "userspace/fleet_questions/engine.h"
#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {

struct CompactionTotals {
  uint64_t summaries = 0;
  uint64_t inputs = 0;  // that took their place
};

// Compacts each hour that was over for `after_s` seconds. To be called with the rights of who asks
// alone, because an engine is started. What cannot be put together stays as it is, and the first
// error is returned when all hours were tried.
absl::StatusOr<CompactionTotals> CompactSummaries(const FleetDirectory& directory,
                                                  const EngineOptions& engine, double after_s);

}  // namespace proftrace
