// Finishes a recording that is over: writes its outputs, prints the table, and says how it went.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "exporters/formats.h"
#include "userspace/capture/session/recorder.h"
#include "userspace/cli/flight_dumps.h"
#include "userspace/cli/record_arguments.h"
#include "userspace/cli/result_directory.h"

namespace proftrace {

// Reads the capture in `directory`, writes its outputs, and prints the final messages.
absl::Status FinishRecording(const RecordArguments& arguments, const RecordResult& result,
                             const std::vector<const Format*>& formats,
                             const ResultDirectory& directory);

// Writes one result directory per cycle into the directory of the run. The capture of the whole run
// is kept only where not all cycles were finished.
absl::Status FinishCycles(const RecordArguments& arguments, const RecordResult& result,
                          const std::vector<const Format*>& formats,
                          const ResultDirectory& directory);

// Finishes the dumps of a flight recorder. The last dump is finished like any recording. The
// outputs of earlier dumps are being made already, and are waited for.
absl::Status FinishFlight(const RecordArguments& arguments, const RecordResult& result,
                          const std::vector<const Format*>& formats,
                          const ResultDirectory& directory, FlightDumps* dumps);

}  // namespace proftrace
