#include "userspace/patch/free_points.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "symbols/elf/elf_file.h"
#include "symbols/process/process_maps.h"
#include "symbols/x86/instruction.h"
#include "userspace/inject/loader_places.h"
#include "userspace/inject/writable_memory.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/plan_spots.h"
#include "userspace/patch/target_lock.h"
#include "userspace/patch/whole_sites.h"

namespace proftrace {
namespace {

// How many bytes before and behind a point are compared with the file. A jump for the point, and
// the instructions that it replaces, lie no further away.
constexpr uint64_t kReach = 80;

// Finds code of the process that differs from its file.
class ChangedCode {
 public:
  ChangedCode(Pid pid, const WritableMemory& memory, const std::vector<Mapping>& mappings)
      : pid_(pid), memory_(memory), mappings_(mappings) {}

  // Whether code near `offset` differs from the file, or cannot be read. Breakpoints are no
  // difference.
  bool IsNear(const MappedFile& file, uint64_t offset) const {
    return std::any_of(file.mappings.begin(), file.mappings.end(), [&](const Mapping& mapping) {
      const uint64_t bytes = mapping.end - mapping.start;
      if (!mapping.executable || offset < mapping.file_offset ||
          offset - mapping.file_offset >= bytes) {
        return false;
      }
      const uint64_t at = mapping.start + (offset - mapping.file_offset);
      const uint64_t begin = std::max(mapping.start, at - kReach);
      return IsChanged(begin, std::min(mapping.end, at + kReach) - begin);
    });
  }

 private:
  bool IsChanged(uint64_t begin, uint64_t bytes) const {
    std::vector<uint8_t> now(bytes);
    std::vector<uint8_t> file(bytes);
    if (!memory_.Read(begin, now.data(), bytes) ||
        !ReadMappedFile(pid_, mappings_, begin, file.data(), bytes)) {
      return true;
    }
    for (size_t i = 0; i < bytes; ++i) {
      if (now[i] != file[i] && now[i] != kBreakpointOpcode) return true;
    }
    return false;
  }

  Pid pid_;
  const WritableMemory& memory_;
  const std::vector<Mapping>& mappings_;
};

}  // namespace

bool IsPatchedByAnother(Pid pid) {
  return HasPatches(pid) && !HasOwnPatches(pid) && TargetLock::IsTaken(pid);
}

absl::StatusOr<std::vector<ModulePlan>> PointsBesideJumps(Pid pid,
                                                          std::vector<ModulePlan> modules) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  const absl::StatusOr<WritableMemory> memory = WritableMemory::Open(pid);
  if (!memory.ok()) return memory.status();
  const std::vector<MappedFile> files = GroupByFile(*mappings);
  const ChangedCode changed(pid, *memory, *mappings);
  ProbePlan wanted;
  wanted.modules = modules;
  PlanSpots spots;
  for (size_t m = 0; m < modules.size(); ++m) {
    for (size_t p = 0; p < modules[m].points.size(); ++p) {
      const uint64_t offset = modules[m].points[p].file_offset;
      const bool is_near = std::any_of(files.begin(), files.end(), [&](const MappedFile& file) {
        return file.device == modules[m].file.device && file.inode == modules[m].file.inode &&
               changed.IsNear(file, offset);
      });
      if (is_near) {
        spots.unpatched.push_back({m, p, ""});
        continue;
      }
      PatchSpot free;
      free.module = m;
      free.point = p;
      spots.spots.push_back(std::move(free));
    }
  }
  KeepWholeSites(wanted, &spots);
  for (ModulePlan& module : modules) module.points.clear();
  for (const PatchSpot& spot : spots.spots) {
    modules[spot.module].points.push_back(wanted.modules[spot.module].points[spot.point]);
  }
  return modules;
}

}  // namespace proftrace
