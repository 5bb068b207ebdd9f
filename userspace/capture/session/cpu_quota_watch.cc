#include "userspace/capture/session/cpu_quota_watch.h"

#include <utility>

#include "symbols/process/cpu_mask.h"

namespace proftrace {
namespace {

constexpr int64_t kQuotaLookNs = 1'000'000'000;
// The most processes and groups that are watched. With -a a host may have thousands of both; the
// groups of further processes are then not known.
constexpr size_t kMostQuotaGroups = 256;
constexpr size_t kMostQuotaProcesses = 4096;

}  // namespace

void CpuQuotaWatch::AddMask(Pid pid, MetadataWriter* writer) {
  if (masks_.contains(Raw(pid)) || masks_.size() >= kMostQuotaProcesses) return;
  const std::optional<CpuMask>& mask = masks_[Raw(pid)] = ReadCpuMask(pid);
  if (mask.has_value()) writer->AddCpuMask(pid, mask);
}

void CpuQuotaWatch::AddGroups(Pid pid, MetadataWriter* writer) {
  if (groups_of_.contains(Raw(pid)) || unknown_.contains(Raw(pid))) return;
  if (groups_of_.size() + unknown_.size() >= kMostQuotaProcesses) return;
  std::optional<std::vector<CpuGroup>> levels = FindCpuGroups(pid);
  if (!levels.has_value() || groups_.size() + levels->size() > kMostQuotaGroups) {
    unknown_.insert(Raw(pid));
    return;
  }
  std::vector<std::string> names;
  for (const CpuGroup& level : *levels) {
    // A group that cannot be read may have a quota.
    if (!groups_.contains(level.folder) && !ReadCpuQuota(level).ok()) {
      unknown_.insert(Raw(pid));
      return;
    }
    names.push_back(level.name);
  }
  for (const CpuGroup& level : *levels) groups_.emplace(level.folder, level);
  groups_of_.emplace(Raw(pid), *std::move(levels));
  writer->AddCpuGroups(pid, std::move(names));
}

void CpuQuotaWatch::Look(std::span<const Pid> pids, int64_t now_ns, bool is_asked,
                         MetadataWriter* writer) {
  next_ns_ = now_ns + kQuotaLookNs;
  for (const Pid pid : pids) {
    AddMask(pid, writer);
    AddGroups(pid, writer);
  }
  CpuQuotaSnapshot snapshot{now_ns, {}};
  for (const auto& [folder, group] : groups_) {
    absl::StatusOr<std::optional<CpuQuota>> quota = ReadCpuQuota(group);
    if (quota.ok() && quota->has_value()) snapshot.groups.push_back(**std::move(quota));
  }
  if (std::exchange(has_said_none_, snapshot.groups.empty()) && has_said_none_ && !is_asked) return;
  writer->AddCpuQuotas(snapshot);
}

void CpuQuotaWatch::Finish(std::span<const Pid> pids, int64_t now_ns, MetadataWriter* writer) {
  Look(pids, now_ns, /*is_asked=*/true, writer);
  for (const Pid pid : pids) {
    const std::optional<CpuMask> mask = ReadCpuMask(pid);
    if (mask.has_value() && masks_.contains(Raw(pid)) && mask != masks_[Raw(pid)]) {
      writer->AddCpuMask(pid, std::nullopt);
    }
    const auto known = groups_of_.find(Raw(pid));
    const std::optional<std::vector<CpuGroup>> now = FindCpuGroups(pid);
    if (known == groups_of_.end() || !now.has_value() || *now == known->second) continue;
    writer->AddCpuGroups(pid, std::nullopt);
  }
}

}  // namespace proftrace
