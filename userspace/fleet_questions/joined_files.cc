#include "userspace/fleet_questions/joined_files.h"

#include <absl/strings/str_format.h>

#include "userspace/base/exit_status.h"
#include "userspace/fleet_questions/report.h"
#include "userspace/fleet_questions/request.h"

namespace proftrace {

absl::StatusOr<std::vector<std::string>> JoinParquetFiles(const EngineOptions& options,
                                                          ScratchFolder& scratch,
                                                          const std::vector<FilesToJoin>& lists) {
  std::vector<std::string> outputs;
  for (const FilesToJoin& files : lists) {
    FleetRequest request(scratch);
    // Paths with names of hosts and jobs may have any character. Links with plain names stand for
    // them.
    std::vector<std::string> links;
    for (const std::string& path : files.paths) {
      const absl::StatusOr<std::string> link = scratch.Link(path);
      if (!link.ok()) return link.status();
      links.push_back(*link);
    }
    outputs.push_back(absl::StrFormat("%s/joined%u.parquet", scratch.path(), outputs.size()));
    request.JoinFiles("rows", links, outputs.back());
    ReportAnswers answers;
    absl::Status status = AskEngine(options, request, scratch, answers);
    if (!status.ok()) return status;
    if (options.stop != nullptr && *options.stop) {
      return Fail(ExitCode::kOutputFailed, "stopped before the files were put together");
    }
    const Answer& rows = answers.Of("rows");
    if (rows.rows.size() != 1 || rows.At(0, "before") != rows.At(0, "after")) {
      return Fail(ExitCode::kBug, "the engine has not written all rows of " + files.name);
    }
  }
  return outputs;
}

}  // namespace proftrace
