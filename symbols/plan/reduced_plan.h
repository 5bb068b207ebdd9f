// Removes from a plan what cannot be recorded after all.
#pragma once

#include <string>

#include "symbols/probe_plan.h"

namespace proftrace {

// Makes the probes what they are without --record-shapes; the plan says why. Leaves a plan that
// reads no inputs as it is.
void RemoveInputs(const std::string& reason, ProbePlan* plan);
// Removes the inputs too, except for operators that are functions, boxed ones and nodes.
void RemoveRowInputs(const std::string& reason, ProbePlan* plan);

}  // namespace proftrace
