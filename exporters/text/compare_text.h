// Writes the comparison of two recordings as text and as JSON.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>

#include "exporters/sinks/output_file.h"
#include "userspace/compare/run_comparison.h"

namespace proftrace {

// Returns one sentence about the whole, then tables of the parts of a step, findings, operators and
// modules that take longer or shorter. `row_limit`: the most rows of operators and of modules;
// negative = all.
std::string FormatComparison(const RunComparison& comparison, int64_t row_limit);

// Writes {"by_step", "before": {"steps", "median_step_ms"}, "after", "step", "parts": [],
// "operators": [], "modules": [], "findings": [], "common_factor", "remarks": []};
// docs/reference/compare.md.
absl::Status ExportComparisonJson(const RunComparison& comparison, int64_t row_limit,
                                  ByteSink& sink);

}  // namespace proftrace
