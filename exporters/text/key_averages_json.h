// Writes rows of key averages as JSON, for `report --json` and summary.json.
#pragma once

#include "exporters/args/recording_json.h"
#include "userspace/aggregate/key_averages.h"

namespace proftrace {

constexpr double InMicroseconds(int64_t ns) { return static_cast<double>(ns) / 1000.0; }

// Returns the JSON of a row of `averages`, or of their sum.
OrderedJson KeyAverageJson(const KeyAverage& row, const KeyAverages& averages);
// Returns the PIDs of the processes whose rows are added up.
OrderedJson ProcessesJson(const KeyAverages& averages);

}  // namespace proftrace
