// How much memory a process may still take before the limit of its control group ends it. Where the
// tracer makes pages of code the job's own, as probes and jumps do, these are charged to the job's
// group, and at the limit the kernel kills the job, not the tracer.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "symbols/process/control_groups.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct MemoryRoom {
  uint64_t bytes = 0;  // left, with what the kernel can surely take back from the file cache
  uint64_t limit = 0;
  std::string limit_file;  // the file that says so
};

// Returns the room at the level of a group that has the least; nullopt: none has a limit.
std::optional<MemoryRoom> RoomOf(const ControlGroup& group);
std::optional<MemoryRoom> ReadMemoryRoom(Pid pid);

// Fails with kHostUnfit where `process` has no room for `bytes` and a reserve. `what`: what takes
// them in the message's sentence ("its probes").
absl::Status CheckMemoryRoom(Pid process, uint64_t bytes, const std::string& what);
absl::Status CheckMemoryRoom(Pid process, uint64_t bytes, const std::string& what,
                             const std::optional<MemoryRoom>& room);

}  // namespace proftrace
