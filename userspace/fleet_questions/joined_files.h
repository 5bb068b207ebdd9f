// Has DuckDB put Parquet files together: what is well kept elsewhere is not read by code of ours.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "userspace/fleet_questions/engine.h"
#include "userspace/fleet_questions/scratch_folder.h"

namespace proftrace {

// Files whose rows are to be in one.
struct FilesToJoin {
  std::string name;
  std::vector<std::string> paths;
};

// Puts the rows of each of `lists` into one file, in the order of its paths, and returns the files'
// paths, in the scratch folder. A column that some files lack is empty there. Fails as AskEngine()
// does, with kBug where rows are missing from what the engine wrote, and with kOutputFailed where
// it was stopped.
absl::StatusOr<std::vector<std::string>> JoinParquetFiles(const EngineOptions& options,
                                                          ScratchFolder& scratch,
                                                          const std::vector<FilesToJoin>& lists);

}  // namespace proftrace
