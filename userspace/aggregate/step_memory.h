// Sums up the memory of the rows of steps. A step is a row around everything that its thread does
// in the step.
#pragma once

#include <optional>
#include <vector>

#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Returns the row of the step around the event, as an index into rows(); nullopt: there is none.
std::optional<size_t> StepOf(const MemoryEvent& event, const StepRows& steps);

// Sums up the bytes of the events in each row. The `self` members are of the events that lie in no
// span within the row.
std::vector<SpanMemory> StepMemory(const Timeline& timeline, const StepRows& steps);

}  // namespace proftrace
