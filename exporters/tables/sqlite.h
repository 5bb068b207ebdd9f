// Writes one SQLite database with a table for each CSV file, and with the same columns in the same
// order, so that one description serves both: `events`, `key_averages`, and where they were
// recorded `modules`, `samples`, `gpu_idle`, `data_waits`. The table `summary` has a row for each
// member of summary.json, with the value as JSON text. Cells that are empty in CSV are NULL.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes the database first to a file without a name in `scratch`, which takes as much room as the
// database.
absl::Status ExportSqlite(const Timeline& timeline, const Aggregates& aggregates,
                          const GuardedFolder& scratch, ByteSink& sink);

}  // namespace proftrace
