// Runs the middle of the pipeline in one call: takes the records and side tables of a capture, and
// returns a finished timeline.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "userspace/model/timeline.h"
#include "userspace/pipeline/process_choice.h"
#include "userspace/wire/metadata.h"
#include "userspace/wire/record_source.h"

namespace proftrace {

// Returns the processes of a capture with everything that the capture's tables say about them. Rank
// and size of the job come from the process groups, or from the environment where no group is
// known.
std::vector<Target> TargetsOf(const CaptureMetadata& metadata);

// Builds the timeline of the processes that `choice` selects. Fails as ChoosePids() does. The same
// records and tables always give the same timeline. `spill_directory`: see TimelineBuilder.
// `device_source`: the records of GPU agents; null where there are none.
absl::StatusOr<std::unique_ptr<Timeline>> BuildTimeline(const CaptureMetadata& metadata,
                                                        RecordSource* source,
                                                        const std::string& spill_directory,
                                                        RecordSource* device_source = nullptr,
                                                        const ProcessChoice& choice = {});

}  // namespace proftrace
