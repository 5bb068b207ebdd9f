// Memory and the rows of steps: a step is a row around what its thread does.
#pragma once

#include <optional>
#include <vector>

#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Returns the row of the step that the event lies in: index into rows().
std::optional<size_t> StepOf(const MemoryEvent& event, const StepRows& steps);

// Sums up each row's bytes: of the events that lie in it; self: of those that lie in no span
// within.
std::vector<SpanMemory> StepMemory(const Timeline& timeline, const StepRows& steps);

}  // namespace proftrace
