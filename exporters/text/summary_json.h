// Writes summary.json, which tells scripts about the run, its cost and its losses.
#pragma once

#include <absl/status/status.h>

#include "exporters/args/recording_json.h"
#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

OrderedJson SummaryJson(const Timeline& timeline, const Aggregates& aggregates);
absl::Status ExportSummary(const Timeline& timeline, const Aggregates& aggregates, ByteSink& sink);

}  // namespace proftrace
