// gpu_idle.csv: one row a gap in which no stream of a device worked, or one of its busiest streams
// (column `stream`), with what the thread that launched the next piece of work did meanwhile.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/device_idle.h"

namespace proftrace {

absl::Status ExportGpuIdleCsv(const Timeline& timeline, const std::vector<DeviceIdle>& devices,
                              ByteSink& sink, CsvText kind = CsvText::kForSpreadsheets);

}  // namespace proftrace
