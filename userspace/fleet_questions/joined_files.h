// Joins Parquet files by DuckDB, so that proftrace needs no Parquet reader of its own.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "userspace/fleet_questions/engine.h"
#include "userspace/fleet_questions/scratch_folder.h"

namespace proftrace {

// Files whose rows are to be joined in one file.
struct FilesToJoin {
  std::string name;
  std::vector<std::string> paths;
};

// Joins the rows of each list of files into one file in the scratch folder, in the order of the
// list's paths, and returns the paths of the new files. Rows of files that lack a column have NULL
// in it. Fails as AskEngine() does, with kBug where rows are missing in the engine's output, and
// with kOutputFailed where the engine was stopped.
absl::StatusOr<std::vector<std::string>> JoinParquetFiles(const EngineOptions& options,
                                                          ScratchFolder& scratch,
                                                          const std::vector<FilesToJoin>& lists);

}  // namespace proftrace
