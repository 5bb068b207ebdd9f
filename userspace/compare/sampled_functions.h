// The time of functions of Python in the steps of a recording, by samples.
#pragma once

#include <vector>

#include "userspace/compare/batches.h"
#include "userspace/compare/run_profile.h"

namespace proftrace {

// Returns the time of the driving thread's functions per step, sorted by name: the job's own with
// all that they call, and those of libraries, and the top level of scripts, while they ran
// themselves. Names are of the form
// "loop.py: train", without lines, which differ between two versions of a job. Empty: there are no
// samples. `batches`: those of `parts`.
std::vector<NamedTime> ProfileFunctions(const Timeline& timeline, const StepParts& parts,
                                        const Batches& batches);

}  // namespace proftrace
