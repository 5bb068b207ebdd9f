#include "symbols/process/cpu_quotas.h"

#include <absl/strings/str_cat.h>

#include <unistd.h>
#include <cerrno>
#include <string_view>

#include "symbols/process/process_maps.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kMostFileBytes = 1 << 16;
constexpr int64_t kNsPerUs = 1000;
// The largest number that is accepted. The kernel allows periods up to a second, and quotas up to
// 2^44 us.
constexpr int64_t kMostUs = int64_t{1} << 44;

absl::Status CannotTell(const CpuGroup& group, const char* what) {
  return absl::UnavailableError(absl::StrCat(group.folder, ": ", what));
}

// Returns the number in a file; nullopt: the text is no possible number.
std::optional<int64_t> Microseconds(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::optional<int64_t> us = ParseNumber<int64_t>(text);
  return us.has_value() && *us > 0 && *us <= kMostUs ? us : std::nullopt;
}

// Returns the counters in cpu.stat; the time is "throttled_usec 17" in version 2 and
// "throttled_time 17000" (ns) in version 1. nullopt: the text has no line "nr_periods", which both
// versions have, or makes no sense.
std::optional<CpuQuota> CountersOf(const CpuGroup& group, std::string_view stat) {
  if (!stat.starts_with("nr_periods ") && !Contains(stat, "\nnr_periods ")) return std::nullopt;
  CpuQuota quota;
  quota.group = group.name;
  quota.periods = StatNumber(stat, "nr_periods");
  quota.throttled_periods = StatNumber(stat, "nr_throttled");
  const uint64_t most = static_cast<uint64_t>(kMostUs) * kNsPerUs;
  const uint64_t time = StatNumber(stat, group.is_v2 ? "throttled_usec" : "throttled_time");
  if (time > most / (group.is_v2 ? kNsPerUs : 1)) return std::nullopt;
  quota.throttled_ns = static_cast<int64_t>(time) * (group.is_v2 ? kNsPerUs : 1);
  if (quota.throttled_periods > quota.periods) return std::nullopt;
  return quota;
}

}  // namespace

std::vector<CpuGroup> LevelsOf(const ControlGroup& group) {
  std::vector<CpuGroup> levels;
  std::string name = group.name;
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  for (const std::string& folder : group.folders) {
    levels.push_back({group.is_v2, name, folder});
    const size_t slash = name.rfind('/');
    name.resize(slash == 0 || slash == std::string::npos ? 1 : slash);
  }
  return levels;
}

std::optional<std::vector<CpuGroup>> FindCpuGroups(Pid pid) {
  const std::optional<ControlGroup> group = FindControlGroup(pid, "cpu");
  if (!group.has_value()) return std::nullopt;
  return LevelsOf(*group);
}

absl::StatusOr<std::optional<CpuQuota>> ReadCpuQuota(const CpuGroup& group) {
  // Every control group of both versions has this file.
  if (access((group.folder + "/cgroup.procs").c_str(), F_OK) != 0) {
    return CannotTell(group, "no control group is there");
  }
  const std::string limit_file = group.folder + (group.is_v2 ? "/cpu.max" : "/cpu.cfs_quota_us");
  const std::string limit = ReadSmallFile(limit_file, kMostFileBytes);
  if (limit.empty()) {
    // The group at the top has no such file, and neither has any group whose controller is off.
    if (access(limit_file.c_str(), F_OK) != 0 && errno == ENOENT) return std::nullopt;
    return CannotTell(group, "its quota cannot be read");
  }
  if (limit.starts_with(group.is_v2 ? "max" : "-1")) return std::nullopt;
  const size_t space = limit.find(' ');
  const std::optional<int64_t> quota_us = Microseconds(std::string_view(limit).substr(0, space));
  std::optional<int64_t> period_us;
  if (!group.is_v2) {
    period_us = Microseconds(ReadSmallFile(group.folder + "/cpu.cfs_period_us", kMostFileBytes));
  } else if (space != std::string::npos) {
    period_us = Microseconds(std::string_view(limit).substr(space + 1));
  }
  std::optional<CpuQuota> quota =
      CountersOf(group, ReadSmallFile(group.folder + "/cpu.stat", kMostFileBytes));
  if (!quota_us || !period_us || !quota) return CannotTell(group, "its quota makes no sense");
  quota->quota_ns = *quota_us * kNsPerUs;
  quota->period_ns = *period_us * kNsPerUs;
  return quota;
}

}  // namespace proftrace
