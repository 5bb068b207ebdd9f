// Removes parts of a plan that turn out to be impossible to record.
#pragma once

#include <string>

#include "symbols/probe_plan.h"

namespace proftrace {

// Changes the probes to what they are without --record-shapes, and adds a gap with `reason`. Leaves
// a plan that reads no inputs unchanged.
void RemoveInputs(const std::string& reason, ProbePlan* plan);
// Removes only the inputs of rows that are no functions, and adds a gap with `reason`. Inputs of
// operators with functions, boxed operators and nodes stay.
void RemoveRowInputs(const std::string& reason, ProbePlan* plan);

}  // namespace proftrace
