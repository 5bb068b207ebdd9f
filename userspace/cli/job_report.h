// Shows the dumps of many processes as text: missing ranks first, then each group of equal stacks
// once.
#pragma once

#include "userspace/cli/job_dumps.h"

namespace proftrace {

void PrintJob(const JobDumps& all);

}  // namespace proftrace
