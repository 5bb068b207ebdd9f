// key_averages.csv: one row a key of torch's key_averages(). A cell is empty where nothing was
// recorded, never 0.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/key_averages.h"

namespace proftrace {

absl::Status ExportKeyAveragesCsv(const KeyAverages& averages, ByteSink& sink,
                                  CsvText kind = CsvText::kForSpreadsheets);

}  // namespace proftrace
