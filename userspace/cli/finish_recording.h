// What comes when a recording is over: its outputs, the table, and what is said of it.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "exporters/formats.h"
#include "userspace/capture/recorder.h"
#include "userspace/cli/flight_dumps.h"
#include "userspace/cli/record_arguments.h"
#include "userspace/cli/result_directory.h"

namespace proftrace {

// Of the capture in `directory`.
absl::Status FinishRecording(const RecordArguments& arguments, const RecordResult& result,
                             const std::vector<const Format*>& formats,
                             const ResultDirectory& directory);

// One result directory a cycle, in the directory of the run; the capture of it all is kept where
// not all of them could be cut out of it.
absl::Status FinishCycles(const RecordArguments& arguments, const RecordResult& result,
                          const std::vector<const Format*>& formats,
                          const ResultDirectory& directory);

// The dumps of a flight recorder: the last one as any recording, those before it are done.
absl::Status FinishFlight(const RecordArguments& arguments, const RecordResult& result,
                          const std::vector<const Format*>& formats,
                          const ResultDirectory& directory, FlightDumps* dumps);

}  // namespace proftrace
