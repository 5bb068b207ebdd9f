// data_waits.csv: a row for each wait for a batch of torch's DataLoader, with what its worker did.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/data_waits.h"

namespace proftrace {

// Columns: step, start_ns (since the Unix epoch), duration_ns, blocked_ns, pid, tid, worker_pid,
// waker_tid, worker_io_ns, worker_off_ns, worker_bytes, call, path, call_ns, call_args. Empty = not
// known.
absl::Status ExportDataWaitsCsv(const Timeline& timeline, const std::vector<DataWait>& waits,
                                ByteSink& sink, CsvText kind = CsvText::kForSpreadsheets);

}  // namespace proftrace
