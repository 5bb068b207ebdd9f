// Joins Parquet files by DuckDB, so that proftrace needs no Parquet reader of its own.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "userspace/fleet_questions/engine.h"
#include "userspace/fleet_questions/scratch_folder.h"

namespace proftrace {

// Joins the rows of the files into the new file `output`, in the order of the paths. Rows of files
// that lack a column have NULL in it. `what`: the table's name, for messages. Fails as AskEngine()
// does, with kBug where rows are missing in the engine's output, and with kOutputFailed where the
// engine was stopped.
absl::Status JoinParquetFiles(const EngineOptions& options, ScratchFolder& scratch,
                              const std::string& what, const std::vector<std::string>& paths,
                              const std::string& output);

}  // namespace proftrace
