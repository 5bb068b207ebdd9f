// report.html: one page that says why a job is slow and shows what it did, with everything in it:
// no network, no other file. The page itself is page/ (HTML, CSS, JavaScript), built into the
// program by embed_page.cmake.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Equal recordings give equal bytes. The page has a bounded size, however long the recording is:
// what is left out, it says.
absl::Status ExportReport(const Timeline& timeline, const Aggregates& aggregates, ByteSink& sink);

}  // namespace proftrace
