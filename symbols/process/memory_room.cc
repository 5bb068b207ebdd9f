#include "symbols/process/memory_room.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>

#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kMostStatBytes = 65536;
// Version 1 shows a number near 64 times this one where there is no limit. No machine has that much
// memory.
constexpr uint64_t kNoLimit = uint64_t{1} << 57;
// The least reserve: for memory that the job itself takes meanwhile, for page tables, and for the
// pages of the group's counter that each processor holds in advance (64, mm/memcontrol.c).
constexpr uint64_t kReserveBytes = 2 << 20;
// The reserve is at least a fourth of the bytes that are to be taken
constexpr uint64_t kReserveShare = 4;
// Only half of the file cache counts as free, because the job's own code is in it.
constexpr uint64_t kShareOfCache = 2;

std::optional<uint64_t> ReadNumber(const std::string& file) {
  return ParseNumber<uint64_t>(StripBlanks(ReadSmallFile(file, 64)));
}

uint64_t CleanCache(const std::string& folder, bool is_v2) {
  const std::string text = ReadSmallFile(folder + "/memory.stat", kMostStatBytes);
  const std::string prefix = is_v2 ? "" : "total_";
  const auto number = [&](const char* name) { return StatNumber(text, prefix + name); };
  const uint64_t cached = number("inactive_file") + number("active_file");
  const uint64_t busy =
      number(is_v2 ? "file_dirty" : "dirty") + number(is_v2 ? "file_writeback" : "writeback");
  return cached - std::min(cached, busy);
}

std::string MiBText(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

std::optional<MemoryRoom> RoomOf(const ControlGroup& group) {
  std::optional<MemoryRoom> least;
  for (const std::string& folder : group.folders) {
    const std::string file = folder + (group.is_v2 ? "/memory.max" : "/memory.limit_in_bytes");
    const std::optional<uint64_t> limit = ReadNumber(file);  // "max" is no number
    const std::optional<uint64_t> used =
        ReadNumber(folder + (group.is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!limit.has_value() || !used.has_value() || *limit >= kNoLimit) continue;
    MemoryRoom room;
    room.bytes = *limit - std::min(*limit, *used) +
                 std::min(*used, CleanCache(folder, group.is_v2)) / kShareOfCache;
    room.limit = *limit;
    room.limit_file = file;
    if (!least.has_value() || room.bytes < least->bytes) least = std::move(room);
  }
  return least;
}

std::optional<MemoryRoom> ReadMemoryRoom(Pid pid) {
  const std::optional<ControlGroup> group = FindControlGroup(pid, "memory");
  return group.has_value() ? RoomOf(*group) : std::nullopt;
}

absl::Status CheckMemoryRoom(Pid process, uint64_t bytes, const std::string& what) {
  return CheckMemoryRoom(process, bytes, what, ReadMemoryRoom(process));
}

absl::Status CheckMemoryRoom(Pid process, uint64_t bytes, const std::string& what,
                             const std::optional<MemoryRoom>& room) {
  if (!room.has_value() || bytes == 0) return absl::OkStatus();
  const uint64_t needed = bytes + std::max(kReserveBytes, bytes / kReserveShare);
  if (needed <= room->bytes) return absl::OkStatus();
  return Fail(
      ExitCode::kHostUnfit,
      absl::StrCat("PID ", Raw(process), " is too near its memory limit: ", what, " would take ",
                   MiBText(needed), " of its control group's memory, and ", MiBText(room->bytes),
                   " are left of ", MiBText(room->limit), " (", room->limit_file,
                   "), so that the kernel might kill it; raise that limit by ",
                   MiBText(needed - room->bytes), " or more and record again"));
}

}  // namespace proftrace
