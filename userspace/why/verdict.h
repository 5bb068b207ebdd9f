// Finds why a job's steps take as long as they do: the largest causes, with evidence.
#pragma once

#include <optional>

#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"
#include "userspace/why/finding.h"
#include "userspace/why/step_parts.h"

namespace proftrace {

// Finds the verdict in passes over the spans, the system events and the device's work. Memory: some
// words for each of these on the driving thread. Where no steps were found, the window counts as
// one step. Where the recording is empty there are no findings, and a remark says so.
Verdict FindVerdict(const Timeline& timeline, const Aggregates& aggregates);
// Finds the verdict from steps that are already split.
Verdict FindVerdict(const Timeline& timeline, const Aggregates& aggregates,
                    const std::optional<StepParts>& parts);

}  // namespace proftrace
