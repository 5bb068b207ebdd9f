// modules.csv: one row an nn.Module, in the order in which they were met. Times in microseconds
// with three decimals; ModuleTimes says what they are. `percent` = forward and backward, of those
// of the outermost modules.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/module_times.h"
#include "userspace/model/timeline.h"

namespace proftrace {

absl::Status ExportModulesCsv(const Timeline& timeline, const ModuleSums& sums, ByteSink& sink,
                              CsvText kind = CsvText::kForSpreadsheets);

}  // namespace proftrace
