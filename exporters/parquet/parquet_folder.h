// Writes a recording as a folder of Parquet files, one for each table, for queries by DuckDB,
// Spark, pandas and polars. The columns are described beside the rows (exporters/tables).
#pragma once

#include <absl/status/status.h>

#include <string>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes all tables but `events` into the folder `name` of `directory`, which is made where it is
// missing. Each table has a file, even where it has no rows. The files get their names when all of
// them are whole, so that nothing has changed after an earlier error.
absl::Status ExportParquet(const Timeline& timeline, const Aggregates& aggregates,
                           const OutputDirectory& directory, const std::string& name);

// Writes the table `events` alone in the same way, with one row for each event. Memory: that of
// ForEachEventRow(), and a page and a dictionary for each column.
absl::Status ExportParquetEvents(const Timeline& timeline, const Aggregates& aggregates,
                                 const OutputDirectory& directory, const std::string& name);

}  // namespace proftrace
