// Makes the facts and the tables that a fleet's directory keeps of one process or rank of a
// capture.
#pragma once

#include <string>
#include <vector>

#include "exporters/parquet/summary_tables.h"
#include "exporters/tables/capture_rows.h"
#include "exporters/tables/clock_rows.h"
#include "exporters/tables/table_keys.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/fleet_tables/input_facts.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Returns the job, attempt, host and rank that say in which partition an input's rows are.
RowKeys PlaceOf(const SourceFacts& source);

class RecordedPart {
 public:
  // `timeline` must outlive this object. `spill_directory`: for data that does not fit in memory.
  RecordedPart(const Timeline& timeline, const std::string& spill_directory);

  const Timeline& timeline() const { return timeline_; }
  // Returns the facts, without their ID. `path`: the input's path.
  InputFacts Facts(const std::string& path) const;
  // Adds all tables to `tables` (AddSummaryTables()). `steps`: the steps of Facts().
  template <typename Tables>
  void AddTables(const std::vector<StepRow>& steps, Tables& tables) const {
    tables.template Add<CaptureRow>("recordings",
                                    [&](auto add) { ForEachCaptureRow(timeline_, add); });
    tables.template Add<ClockRow>("clock_readings",
                                  [&](auto add) { ForEachClockRow(timeline_, add); });
    AddSummaryTables(timeline_, aggregates_, calls_, steps, tables);
  }

 private:
  const Timeline& timeline_;
  Aggregates aggregates_;
  std::vector<ProcessCalls> calls_;
};

}  // namespace proftrace
