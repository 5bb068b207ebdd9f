// A recording as a folder of Parquet files, a table a file: what DuckDB, Spark, pandas and polars
// ask questions of. What the columns are stands beside the rows (exporters/tables).
#pragma once

#include <absl/status/status.h>

#include <string>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes all tables but `events` into the folder `name` of `directory`, which is made where it is
// missing. Each table has a file, be it without a row. The files get their names when all of them
// are whole: after an error before that, nothing has changed.
absl::Status ExportParquet(const Timeline& timeline, const Aggregates& aggregates,
                           const OutputDirectory& directory, const std::string& name);

// Writes the table `events` alone, in the same way: a row an event. Memory: that of EventRows, and
// a page and a dictionary a column.
absl::Status ExportParquetEvents(const Timeline& timeline, const Aggregates& aggregates,
                                 const OutputDirectory& directory, const std::string& name);

}  // namespace proftrace
