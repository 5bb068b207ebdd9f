// The tables as CSV files: RFC 4180 with one header line. A cell is empty where nothing was
// recorded, never 0. The columns and their meanings are described beside the rows: event_row.h and
// *_rows.h.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/data_waits.h"
#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/key_averages.h"
#include "userspace/aggregate/module_times.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes the table `events`. Memory: that of ForEachEventRow().
absl::Status ExportEventsCsv(const Timeline& timeline, const Steps& steps, const StepRows& rows,
                             ByteSink& sink, CsvText kind = CsvText::kForSpreadsheets);

// Writes the folder `name` in `directory`: events.csv.gz, in which a row has the number of its
// stack (`stack_id` in place of `stack`), and stacks.csv.gz, which has each stack once. The events
// get their name last, so that their stacks are there where they are. Memory: that of
// ForEachEventRow(), and a bit for each frame.
absl::Status ExportEventsAndStacks(const Timeline& timeline, const Steps& steps,
                                   const StepRows& rows, const OutputDirectory& directory,
                                   const std::string& name,
                                   CsvText kind = CsvText::kForSpreadsheets);

absl::Status ExportKeyAveragesCsv(const KeyAverages& averages, ByteSink& sink,
                                  CsvText kind = CsvText::kForSpreadsheets);

absl::Status ExportModulesCsv(const Timeline& timeline, const ModuleSums& sums, ByteSink& sink,
                              CsvText kind = CsvText::kForSpreadsheets);

absl::Status ExportSamplesCsv(const Timeline& timeline, const StepRows& rows, ByteSink& sink,
                              CsvText kind = CsvText::kForSpreadsheets);

absl::Status ExportGpuIdleCsv(const Timeline& timeline, const std::vector<DeviceIdle>& devices,
                              ByteSink& sink, CsvText kind = CsvText::kForSpreadsheets);

absl::Status ExportDataWaitsCsv(const Timeline& timeline, const std::vector<DataWait>& waits,
                                ByteSink& sink, CsvText kind = CsvText::kForSpreadsheets);

}  // namespace proftrace
