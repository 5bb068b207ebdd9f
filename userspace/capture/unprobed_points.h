// What is missing where places in the code have neither a jump nor a probe.
#pragma once

#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/model/recording.h"

namespace proftrace {

// By kind of row, with the number of places.
std::vector<Unsupported> DescribeUnprobed(const std::vector<ModulePlan>& modules);

}  // namespace proftrace
