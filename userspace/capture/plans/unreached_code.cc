#include "userspace/capture/plans/unreached_code.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "symbols/x86/instruction.h"

namespace proftrace {
namespace {

// How many places of each mapping are read, so that one lies in every part that a job may have
// copied away.
constexpr size_t kMostPlacesOfMapping = 256;
// The instructions of a probe on a nop of five bytes, which becomes a call since Linux 6.18.
constexpr uint8_t kCall = 0xe8;
constexpr uint8_t kNopOf5Bytes[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

// The place of a point in the process.
struct Place {
  const ProbePoint* point;
  uint64_t address;
};

// Finds the places where a process has the code of one file.
class ModulePlaces {
 public:
  ModulePlaces(const std::vector<Mapping>& mappings, const ModulePlan& module)
      : mappings_(mappings), module_(module) {
    for (const Mapping& mapping : mappings_) {
      if (mapping.executable) code_.push_back(&mapping);
      if (IsOfModule(mapping)) biases_.insert(mapping.start - mapping.file_offset);
    }
  }

  // Returns the points of the plan in each mapping of the file's code.
  std::vector<std::vector<Place>> Find() const {
    std::vector<std::vector<Place>> found;
    for (const Mapping& mapping : mappings_) {
      if (!IsOfModule(mapping) || !mapping.executable) continue;
      std::vector<Place>& places = found.emplace_back();
      for (const ProbePoint& point : module_.points) {
        if (point.file_offset < mapping.file_offset ||
            point.file_offset - mapping.file_offset >= mapping.end - mapping.start) {
          continue;
        }
        places.push_back({&point, mapping.start + point.file_offset - mapping.file_offset});
      }
    }
    return found;
  }

  // Counts the points that the process has mapped nowhere as the file's code.
  void CountElsewhere(const std::set<uint16_t>& refused, UnreachedCode* result) const {
    std::set<uint64_t> mapped;  // offsets of points
    for (const std::vector<Place>& places : Find()) {
      for (const Place& place : places) mapped.insert(place.point->file_offset);
    }
    for (const ProbePoint& point : module_.points) {
      if (mapped.contains(point.file_offset) || refused.contains(SiteOf(point))) continue;
      ++(HasCodeAt(point.file_offset) ? result->not_of_file : result->unmapped);
    }
  }

 private:
  bool IsOfModule(const Mapping& mapping) const {
    return mapping.inode != 0 && mapping.inode == module_.file.inode &&
           mapping.device == module_.file.device;
  }

  // Whether executable memory lies where the file's code would be, judged by the distance from the
  // file's other mappings.
  bool HasCodeAt(uint64_t file_offset) const {
    return std::any_of(biases_.begin(), biases_.end(), [&](uint64_t bias) {
      const uint64_t address = bias + file_offset;
      return std::any_of(code_.begin(), code_.end(), [address](const Mapping* mapping) {
        return mapping->start <= address && address < mapping->end;
      });
    });
  }

  const std::vector<Mapping>& mappings_;
  const ModulePlan& module_;
  std::vector<const Mapping*> code_;  // all executable mappings of the process
  std::set<uint64_t> biases_;         // address less file offset, of the file's mappings
};

UnreachedCode NothingOf(const ModulePlan& module) {
  UnreachedCode result;
  result.module = module.name;
  result.points = module.points.size();
  return result;
}

class ModuleLook {
 public:
  ModuleLook(const std::vector<Mapping>& mappings, const TargetMemory& memory,
             const ReadModuleFile& read_file, const ModulePlan& module)
      : places_(mappings, module), memory_(memory), read_file_(read_file), module_(module) {}

  // Counts the places without a probe. `refused` has the sites that the kernel has not taken.
  UnreachedCode Look(const std::set<uint16_t>& refused) const {
    UnreachedCode result = NothingOf(module_);
    result.refused = static_cast<size_t>(std::count_if(
        module_.points.begin(), module_.points.end(),
        [&refused](const ProbePoint& point) { return refused.contains(SiteOf(point)); }));
    for (std::vector<Place>& places : places_.Find()) {
      std::erase_if(places, [&refused](const Place& place) {
        return refused.contains(SiteOf(*place.point));
      });
      result.without += CountWithout(places);
    }
    places_.CountElsewhere(refused, &result);
    return result;
  }

 private:
  size_t CountWithout(const std::vector<Place>& places) const {
    const size_t step = std::max<size_t>(1, places.size() / kMostPlacesOfMapping);
    bool is_one_without = false;
    for (size_t i = 0; i < places.size() && !is_one_without; i += step) {
      is_one_without = !HasProbe(places[i]);
    }
    if (!is_one_without) return 0;
    return static_cast<size_t>(std::count_if(
        places.begin(), places.end(), [this](const Place& place) { return !HasProbe(place); }));
  }

  bool HasProbe(const Place& place) const {
    uint8_t now = 0;
    if (!memory_.Read(place.address, &now, sizeof(now)) || now == kBreakpointOpcode) return true;
    uint8_t file[sizeof(kNopOf5Bytes)];
    if (now != kCall) return false;
    return !read_file_(module_, place.point->file_offset, file, sizeof(file)) ||
           std::equal(std::begin(file), std::end(file), std::begin(kNopOf5Bytes));
  }

  ModulePlaces places_;
  const TargetMemory& memory_;
  const ReadModuleFile& read_file_;
  const ModulePlan& module_;
};

void AddReason(std::string part, std::string* text) {
  if (!text->empty()) *text += "; ";
  *text += std::move(part);
}

// Returns the sites that have a refused point: they are left out with all of their points.
std::set<uint16_t> RefusedSites(const ModulePlan& module, const AttachReport& report) {
  std::set<uint16_t> sites;
  for (const RefusedPoint& refused : report.refused) {
    if (refused.module != module.name) continue;
    for (const ProbePoint& point : module.points) {
      if (point.file_offset == refused.file_offset) sites.insert(SiteOf(point));
    }
  }
  return sites;
}

}  // namespace

std::vector<UnreachedCode> FindUnreachedCode(const std::vector<Mapping>& mappings,
                                             const TargetMemory& memory,
                                             const ReadModuleFile& read_file,
                                             const std::vector<ModulePlan>& modules,
                                             const AttachReport& report) {
  std::vector<UnreachedCode> found;
  for (const ModulePlan& module : modules) {
    if (module.points.empty() || module.file.inode == 0) continue;
    const std::set<uint16_t> refused = RefusedSites(module, report);
    UnreachedCode code = ModuleLook(mappings, memory, read_file, module).Look(refused);
    if (code.unreached() > 0) found.push_back(std::move(code));
  }
  return found;
}

std::vector<UnreachedCode> FindUnreachedCode(Pid pid, const std::vector<ModulePlan>& modules,
                                             const AttachReport& report) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok() || mappings->empty()) return {};
  const auto read_file = [](const ModulePlan& module, uint64_t offset, void* buffer, size_t bytes) {
    return module.held->ReadAt(offset, buffer, bytes) == bytes;
  };
  return FindUnreachedCode(*mappings, ProcessMemory(pid), read_file, modules, report);
}

bool HasAnyProbe(Pid pid, const ModulePlan& module, const AttachReport& report) {
  const std::vector<UnreachedCode> found = FindUnreachedCode(pid, {module}, report);
  return found.empty() || found.front().unreached() < found.front().accepted();
}

std::vector<UnreachedCode> FindMovedCode(const std::vector<Mapping>& mappings,
                                         const std::vector<ModulePlan>& modules) {
  std::vector<UnreachedCode> found;
  for (const ModulePlan& module : modules) {
    if (module.points.empty() || module.file.inode == 0) continue;
    UnreachedCode code = NothingOf(module);
    ModulePlaces(mappings, module).CountElsewhere({}, &code);
    code.unmapped = 0;
    if (code.unreached() > 0) found.push_back(std::move(code));
  }
  return found;
}

std::vector<UnreachedCode> FindMovedCode(Pid pid, const std::vector<ModulePlan>& modules) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return {};
  return FindMovedCode(*mappings, modules);
}

std::optional<std::string> DescribeUnreachedCode(const std::vector<UnreachedCode>& unreached) {
  if (unreached.empty()) return std::nullopt;
  std::string counts;
  UnreachedCode all;
  for (const UnreachedCode& code : unreached) {
    counts += (counts.empty() ? "" : ", ") + std::to_string(code.unreached()) + " of " +
              std::to_string(code.points) + " places of " + code.module;
    all.not_of_file += code.not_of_file;
    all.unmapped += code.unmapped;
    all.without += code.without;
  }
  std::string why;
  if (all.not_of_file > 0) {
    AddReason(
        "this code lies in memory that is not mapped from the file (text copied to huge pages or "
        "to a memfd, as by BOLT's --hugify), where the kernel puts no probes",
        &why);
  }
  if (all.without > 0) {
    AddReason(
        "the kernel has put no probes into this code: it is mapped shared or writable, or from "
        "another copy of the file, as where overlayfs has copied a file up since it was mapped "
        "(jumps, --tier patch, may reach it)",
        &why);
  }
  if (all.unmapped > 0) AddReason("the process has this code not mapped any more", &why);
  return counts + " cannot be recorded: " + why + "; start the job anew without that to record all";
}

}  // namespace proftrace
