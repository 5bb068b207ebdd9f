// summary.json: what the run was, what it cost and what it lost, for scripts.
#pragma once

#include <absl/status/status.h>

#include "exporters/output_file.h"
#include "exporters/recording_json.h"
#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

OrderedJson SummaryJson(const Timeline& timeline, const SpanCounts& counts, const Steps& steps);
absl::Status ExportSummary(const Timeline& timeline, const SpanCounts& counts, const Steps& steps,
                           ByteSink& sink);

}  // namespace proftrace
