#include "userspace/fleet_questions/joined_files.h"

#include "userspace/base/exit_status.h"
#include "userspace/fleet_questions/report.h"
#include "userspace/fleet_questions/request.h"

namespace proftrace {

absl::Status JoinParquetFiles(const EngineOptions& options, ScratchFolder& scratch,
                              const std::string& what, const std::vector<std::string>& paths,
                              const std::string& output) {
  FleetRequest request(scratch);
  // Paths with names of hosts and jobs may have any character. Links with plain names stand for
  // them.
  std::vector<std::string> links;
  for (const std::string& path : paths) {
    const absl::StatusOr<std::string> link = scratch.Link(path);
    if (!link.ok()) return link.status();
    links.push_back(*link);
  }
  request.JoinFiles("rows", links, output);
  ReportAnswers answers;
  absl::Status status = AskEngine(options, request, scratch, answers);
  if (!status.ok()) return status;
  if (options.stop != nullptr && *options.stop) {
    return Fail(ExitCode::kOutputFailed, "stopped before the files were put together");
  }
  const Answer& rows = answers.Of("rows");
  if (rows.rows.size() != 1 || rows.At(0, "before") != rows.At(0, "after")) {
    return Fail(ExitCode::kBug, "the engine has not written all rows of " + what);
  }
  return absl::OkStatus();
}

}  // namespace proftrace
