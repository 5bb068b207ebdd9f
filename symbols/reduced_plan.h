// Takes out of a plan what cannot be recorded after all.
#pragma once

#include <string>

#include "symbols/probe_plan.h"

namespace proftrace {

// The probes are what they are without --record-shapes, and the plan says why. Nothing happens to a
// plan that reads no inputs.
void RemoveInputs(const std::string& reason, ProbePlan* plan);
// Likewise, but operators that are functions, boxed ones and nodes keep theirs.
void RemoveRowInputs(const std::string& reason, ProbePlan* plan);

}  // namespace proftrace
