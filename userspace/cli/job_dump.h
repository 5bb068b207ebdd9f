// `proftrace dump` of many processes: a job's ranks at one glance.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// Dumps the processes one after the other and shows equal stacks once. `pids` empty: all PyTorch
// processes. A process that cannot be read is named, with the reason; where none can, the status is
// the first one's.
absl::Status DumpJob(const std::vector<uint32_t>& pids, bool as_json);

// Dumps a process, and prints its document with what `merge` asks for. Its groups are looked for
// only where its launcher has told its rank: many dumps in a row are to be quick.
absl::Status DumpOneAsJson(Pid pid);

}  // namespace proftrace
