// events.csv: one row an event, in the order of their starts, and so of their ids. A cell is empty
// where nothing was recorded, never 0.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Memory: a few words a label and a frame of Python, and at most 16 MiB of call paths and 32 MiB of
// stacks.
// `steps` fill the column of that name; `rows` are rows of their own, and parents of what they
// enclose.
absl::Status ExportEventsCsv(const Timeline& timeline, const Steps& steps, const StepRows& rows,
                             ByteSink& sink, CsvText kind = CsvText::kForSpreadsheets);

}  // namespace proftrace
