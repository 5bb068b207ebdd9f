// The dumps of many processes as text: what is missing first, then equal stacks once.
#pragma once

#include "userspace/cli/job_dumps.h"

namespace proftrace {

void PrintJob(const JobDumps& all);

}  // namespace proftrace
