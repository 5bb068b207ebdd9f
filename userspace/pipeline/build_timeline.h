// The middle of the pipeline in one call: records and side tables in, a finished timeline out.
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

// Returns the processes of a capture with all that its tables say of them: rank and size of the job
// by their process groups, else by their environment.
std::vector<Target> TargetsOf(const CaptureMetadata& metadata);

// Builds the timeline of the processes that `choice` chooses; fails as ChoosePids(). The same
// records and tables give the same timeline. `spill_directory`: see TimelineBuilder.
// `device_source`: the records of GPU agents; null: there are none.
absl::StatusOr<std::unique_ptr<Timeline>> BuildTimeline(const CaptureMetadata& metadata,
                                                        RecordSource* source,
                                                        const std::string& spill_directory,
                                                        RecordSource* device_source = nullptr,
                                                        const ProcessChoice& choice = {});

}  // namespace proftrace
