// Does what comes when a recording is over: writes its outputs, prints the table, and says how it
// went.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "exporters/formats.h"
#include "userspace/capture/recorder.h"
#include "userspace/cli/flight_dumps.h"
#include "userspace/cli/record_arguments.h"
#include "userspace/cli/result_directory.h"

namespace proftrace {

// Reads the capture in `directory`, and writes its outputs and the last words.
absl::Status FinishRecording(const RecordArguments& arguments, const RecordResult& result,
                             const std::vector<const Format*>& formats,
                             const ResultDirectory& directory);

// Writes one result directory a cycle, in the directory of the run; the capture of it all is kept
// where not all of them could be cut out of it.
absl::Status FinishCycles(const RecordArguments& arguments, const RecordResult& result,
                          const std::vector<const Format*>& formats,
                          const ResultDirectory& directory);

// Finishes the dumps of a flight recorder: the last one as any recording; those before it are done.
absl::Status FinishFlight(const RecordArguments& arguments, const RecordResult& result,
                          const std::vector<const Format*>& formats,
                          const ResultDirectory& directory, FlightDumps* dumps);

}  // namespace proftrace
