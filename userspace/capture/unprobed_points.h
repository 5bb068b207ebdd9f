// Tells which rows are missing where places in the code have neither a jump nor a probe.
#pragma once

#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Describes the gaps by kind of row, with the number of places; rows of torch's own
// at::RecordFunction by their function. `sites`: the plan's.
std::vector<Unsupported> DescribeUnprobed(const std::vector<ModulePlan>& modules,
                                          const std::vector<SiteInfo>& sites);

}  // namespace proftrace
