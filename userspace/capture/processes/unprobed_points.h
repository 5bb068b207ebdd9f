// Tells which rows are missing where places in the code have neither a jump nor a probe.
#pragma once

#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Describes the gaps, one for each kind of row, with the number of places. Rows of
// at::RecordFunction in torch's own code are described by their function. `sites` has the plan's
// sites.
std::vector<Unsupported> DescribeUnprobed(const std::vector<ModulePlan>& modules,
                                          const std::vector<SiteInfo>& sites);

}  // namespace proftrace
