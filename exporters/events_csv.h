// events.csv: one row a span, in the order of ids. A cell is empty where nothing was recorded,
// never 0.
#pragma once

#include <absl/status/status.h>

#include "exporters/output_file.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Memory: a few words a label, and at most 16 MiB of call paths.
absl::Status ExportEventsCsv(const Timeline& timeline, ByteSink& sink);

}  // namespace proftrace
