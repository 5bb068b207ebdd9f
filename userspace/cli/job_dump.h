// Runs `proftrace dump` for many processes, to show a job's ranks at one glance.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// Dumps the processes one after the other and shows equal stacks once. `pids`: empty for all
// PyTorch processes. A process that cannot be read is named, with the reason; where none can be
// read, the first error is returned.
absl::Status DumpJob(const std::vector<uint32_t>& pids, bool as_json);

// Dumps a process, and prints its document with all members that `merge` needs. Its process groups
// are searched only where its launcher has told its rank, so that many dumps in a row are quick.
absl::Status DumpOneAsJson(Pid pid);

}  // namespace proftrace
