#include "userspace/capture/kernel/probe_memory.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>

#include "symbols/process/memory_room.h"
#include "symbols/process/process_maps.h"
#include "userspace/patch/private_pages.h"

namespace proftrace {

absl::Status CheckProbeMemory(Pid pid, const std::vector<ModulePlan>& modules) {
  const std::optional<MemoryRoom> room = ReadMemoryRoom(pid);
  if (!room.has_value()) return absl::OkStatus();
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return absl::OkStatus();
  std::vector<uint64_t> places;
  for (const Mapping& mapping : *mappings) {
    if (!mapping.executable || mapping.inode == 0) continue;
    for (const ModulePlan& module : modules) {
      if (module.file.inode != mapping.inode || module.file.device != mapping.device) continue;
      for (const std::vector<ProbePoint>* points : {&module.points, &module.cost_points}) {
        for (const ProbePoint& point : *points) {
          const uint64_t offset = point.file_offset - mapping.file_offset;
          if (offset < mapping.end - mapping.start) places.push_back(mapping.start + offset);
        }
      }
    }
  }
  return CheckMemoryRoom(pid, PrivatePages(pid).BytesToOwn(std::move(places)),
                         "probes in the code that it runs", room);
}

}  // namespace proftrace
