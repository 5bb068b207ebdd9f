// Tells how much memory a process may still take before it reaches the limit of its control group.
// Probes and jumps make the job's pages of code its own. These pages are charged to the job's
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
  // The free room, with the part of the file cache that the kernel can surely take back
  uint64_t bytes = 0;
  uint64_t limit = 0;
  std::string limit_file;  // the file in which the kernel shows the limit
};

// Returns the room of the level, of the group and those above it, that has the least; nullopt: no
// level has a limit.
std::optional<MemoryRoom> RoomOf(const ControlGroup& group);
std::optional<MemoryRoom> ReadMemoryRoom(Pid pid);

// Fails with kHostUnfit where `process` has no room for `bytes` and a reserve. `what` names the
// user of these bytes in the message ("its probes").
absl::Status CheckMemoryRoom(Pid process, uint64_t bytes, const std::string& what);
absl::Status CheckMemoryRoom(Pid process, uint64_t bytes, const std::string& what,
                             const std::optional<MemoryRoom>& room);

}  // namespace proftrace
