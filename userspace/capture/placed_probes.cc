#include "userspace/capture/placed_probes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "symbols/instruction.h"
#include "symbols/process_maps.h"
#include "symbols/process_memory.h"

namespace proftrace {
namespace {

constexpr size_t kMostSampledPoints = 64;

// Where the process has the point; nothing where it has not mapped that part as code.
std::optional<uint64_t> AddressOf(const std::vector<Mapping>& mappings, const FileId& file,
                                  uint64_t offset) {
  const auto found = std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& mapping) {
    return mapping.executable && mapping.device == file.device && mapping.inode == file.inode &&
           offset >= mapping.file_offset &&
           offset - mapping.file_offset < mapping.end - mapping.start;
  });
  if (found == mappings.end()) return std::nullopt;
  return found->start + (offset - found->file_offset);
}

}  // namespace

std::optional<bool> HasProbesOf(Pid pid, const ModulePlan& module) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok() || module.points.empty()) return std::nullopt;
  const ProcessMemory memory(pid);
  std::optional<bool> has_one;
  const size_t step = module.points.size() / kMostSampledPoints + 1;
  for (size_t i = 0; i < module.points.size(); i += step) {
    const auto address = AddressOf(*mappings, module.file, module.points[i].file_offset);
    uint8_t byte = 0;
    if (!address.has_value() || !memory.Read(*address, &byte, 1)) continue;
    // One that the kernel refused is no sign, and neither is one that it has made a call since.
    has_one = has_one.value_or(false) || byte == kBreakpointOpcode;
  }
  return has_one;
}

}  // namespace proftrace
