// samples.csv: one row for looks at a thread that found the same, in order of time (--sample).
// `start_ns` = of the first of them, nanoseconds since the Unix epoch; `samples` = how many, one
// every `period_ns`; `event_id` = the innermost event around the first, as in events.csv; `stack`
// = its frames joined by ';', the innermost last, Python's with the line that is executed; `cut` =
// "python", "native", "both" where frames are missing further out.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

absl::Status ExportSamplesCsv(const Timeline& timeline, const StepRows& rows, ByteSink& sink,
                              CsvText kind = CsvText::kForSpreadsheets);

}  // namespace proftrace
