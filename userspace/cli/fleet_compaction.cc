#include "userspace/cli/fleet_compaction.h"

#include <absl/strings/str_cat.h>

#include <string>
#include <utility>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/fleet_questions/joined_files.h"
#include "userspace/fleet_tables/compaction.h"

namespace proftrace {

absl::StatusOr<CompactionTotals> CompactSummaries(const FleetDirectory& directory,
                                                  const EngineOptions& engine, double after_s) {
  // Files that a killed process has left are removed first.
  if (const auto left = directory.Recover(); !left.ok()) return left.status();
  const int64_t now_s = ClockNs(CLOCK_REALTIME) / 1'000'000'000;
  const auto hours = HoursToCompact(directory, now_s - static_cast<int64_t>(after_s));
  if (!hours.ok()) return hours.status();
  CompactionTotals totals;
  absl::Status first_failure;
  for (const SummaryHour& hour : *hours) {
    if (engine.stop != nullptr && *engine.stop) break;
    // Each hour gets its own folder, so that only one hour's files take space at a time.
    const auto scratch = ScratchFolder::Make();
    if (!scratch.ok()) return scratch.status();
    const auto join =
        [&](const std::vector<TableFiles>& tables) -> absl::StatusOr<std::vector<std::string>> {
      std::vector<std::string> outputs;
      for (const TableFiles& table : tables) {
        outputs.push_back(absl::StrCat((*scratch)->path(), "/joined", outputs.size(), ".parquet"));
        absl::Status status =
            JoinParquetFiles(engine, **scratch, table.table, table.paths, outputs.back());
        if (!status.ok()) return status;
      }
      return outputs;
    };
    absl::Status status = CompactHour(directory, hour, join);
    // Without an engine, or a place to write, all further hours would fail as well.
    if (ExitCodeOf(status) == ExitCode::kHostUnfit ||
        ExitCodeOf(status) == ExitCode::kOutputFailed) {
      return status;
    }
    if (!status.ok()) {
      first_failure.Update(status);
      continue;
    }
    totals.summaries += hour.windows.size();
    ++totals.inputs;
  }
  if (!first_failure.ok()) return first_failure;
  return totals;
}

}  // namespace proftrace
