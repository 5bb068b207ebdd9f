// Writes report.html, one page that says why a job is slow and shows what it did. It is
// self-contained: it needs no network and no other file. The page's source is page/ (HTML, CSS,
// JavaScript), which embed_page.cmake builds into the program.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes the page. Equal recordings give equal bytes. The page has a bounded size, however long the
// recording is, and says what it leaves out.
absl::Status ExportReport(const Timeline& timeline, const Aggregates& aggregates, ByteSink& sink);

}  // namespace proftrace
