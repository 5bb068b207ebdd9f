// Says why a job's steps take as long as they do: the largest causes, with evidence.
#pragma once

#include <optional>

#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"
#include "userspace/why/finding.h"
#include "userspace/why/step_parts.h"

namespace proftrace {

// Passes over the spans, the system events and the device's work; memory: some words for each of
// the driving thread's. Without a step the window is looked at as a whole; without anything in it
// there are no findings, and a remark says so.
Verdict FindVerdict(const Timeline& timeline, const Aggregates& aggregates);
// Takes steps that are split already.
Verdict FindVerdict(const Timeline& timeline, const Aggregates& aggregates,
                    const std::optional<StepParts>& parts);

}  // namespace proftrace
