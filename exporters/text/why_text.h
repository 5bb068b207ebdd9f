// Writes the verdict (why steps take so long) as text and as JSON.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "exporters/args/recording_json.h"
#include "exporters/sinks/output_file.h"
#include "userspace/why/finding.h"

namespace proftrace {

// Returns one sentence about the whole, the findings as a numbered list with their evidence, and
// the remarks; lines of at most 100 characters.
std::string FormatVerdict(const Verdict& verdict);

// Returns {"about", "steps", "median_step_us", "findings": [{"kind", "ms_a_step", "share",
// "certainty", "what", "evidence": [], "record_with"}], "remarks": []}; docs/reference/why.md.
OrderedJson VerdictDocument(const Verdict& verdict);
absl::Status ExportVerdictJson(const Verdict& verdict, ByteSink& sink);

}  // namespace proftrace
