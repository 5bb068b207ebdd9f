#include "userspace/wire/quota_metadata.h"

#include <utility>

#include "userspace/wire/metadata_json.h"

namespace proftrace {

using namespace metadata_json;  // NOLINT(google-build-using-namespace)

namespace {

// The most snapshots that are read, because a hostile file may hold any number. One a second makes
// this many in twelve days.
constexpr size_t kMostQuotaSnapshots = size_t{1} << 20;
constexpr size_t kMostQuotaGroups = 4096;
constexpr size_t kMostQuotaProcesses = size_t{1} << 16;
constexpr int64_t kLongestQuotaNs = int64_t{1} << 59;

std::optional<CpuQuota> QuotaFromJson(const json& object) {
  if (!object.is_object()) return std::nullopt;
  CpuQuota quota;
  quota.group = Text(object, "group");
  const auto time = [&object](const char* key) {
    const std::optional<int64_t> ns = WholeNumber<int64_t>(Member(object, key));
    return ns && *ns >= 0 && *ns <= kLongestQuotaNs ? ns : std::nullopt;
  };
  const std::optional<int64_t> quota_ns = time("quota_ns"), period_ns = time("period_ns"),
                               throttled_ns = time("throttled_ns");
  const auto periods = WholeNumber<uint64_t>(Member(object, "periods"));
  const auto throttled = WholeNumber<uint64_t>(Member(object, "throttled_periods"));
  if (!quota_ns || !period_ns || !throttled_ns || !periods || !throttled) return std::nullopt;
  if (*quota_ns == 0 || *period_ns == 0 || *throttled > *periods) return std::nullopt;
  quota.quota_ns = *quota_ns;
  quota.period_ns = *period_ns;
  quota.periods = *periods;
  quota.throttled_periods = *throttled;
  quota.throttled_ns = *throttled_ns;
  return quota;
}

}  // namespace

json CpuGroupsToJson(Pid pid, const std::optional<std::vector<std::string>>& groups) {
  json entry = {{"type", "cpu_groups"}, {"pid", Raw(pid)}, {"groups", nullptr}};
  if (!groups.has_value()) return entry;
  entry["groups"] = json::array();
  for (const std::string& group : *groups) entry["groups"].push_back(ToJsonText(group));
  return entry;
}

json CpuQuotasToJson(const CpuQuotaSnapshot& snapshot) {
  json groups = json::array();
  for (const CpuQuota& quota : snapshot.groups) {
    groups.push_back({{"group", ToJsonText(quota.group)},
                      {"quota_ns", quota.quota_ns},
                      {"period_ns", quota.period_ns},
                      {"periods", quota.periods},
                      {"throttled_periods", quota.throttled_periods},
                      {"throttled_ns", quota.throttled_ns}});
  }
  return {{"type", "cpu_quotas"}, {"time_ns", snapshot.time_ns}, {"groups", std::move(groups)}};
}

json CpuMaskToJson(Pid pid, const std::optional<CpuMask>& mask) {
  json entry = {{"type", "cpu_mask"}, {"pid", Raw(pid)}};
  if (!mask.has_value()) return entry;
  entry["count"] = mask->count;
  entry["cpus"] = mask->cpus;
  return entry;
}

void MergeCpuGroups(const json& entry, RecordingInfo* info) {
  const auto pid = WholeNumber<uint32_t>(Member(entry, "pid"));
  if (!pid || info->cpu_groups.size() >= kMostQuotaProcesses) return;
  info->cpu_groups.erase(*pid);
  const json& list = Member(entry, "groups");
  if (!list.is_array() || list.size() > kMostQuotaGroups) return;
  std::vector<std::string> groups;
  for (const json& group : list) {
    if (!group.is_string()) return;
    groups.push_back(FromJsonText(group.get_ref<const std::string&>()));
  }
  info->cpu_groups[*pid] = std::move(groups);
}

void MergeCpuQuotas(const json& entry, RecordingInfo* info) {
  CpuQuotaSnapshot snapshot;
  const json& list = Member(entry, "groups");
  const auto time_ns = WholeNumber<int64_t>(Member(entry, "time_ns"));
  if (!time_ns || *time_ns < 0 || *time_ns > kLatestMonotonicNs || !list.is_array()) return;
  snapshot.time_ns = *time_ns;
  if (list.size() > kMostQuotaGroups || info->cpu_quotas.size() >= kMostQuotaSnapshots) return;
  for (const json& group : list) {
    std::optional<CpuQuota> quota = QuotaFromJson(group);
    if (!quota.has_value()) return;
    snapshot.groups.push_back(*std::move(quota));
  }
  const bool is_in_order =
      info->cpu_quotas.empty() || info->cpu_quotas.back().time_ns <= snapshot.time_ns;
  if (is_in_order) info->cpu_quotas.push_back(std::move(snapshot));
}

void MergeCpuMask(const json& entry, RecordingInfo* info) {
  const auto pid = WholeNumber<uint32_t>(Member(entry, "pid"));
  if (!pid || info->cpu_masks.size() >= kMostQuotaProcesses) return;
  info->cpu_masks.erase(*pid);
  const auto count = WholeNumber<uint32_t>(Member(entry, "count"));
  std::string cpus = Text(entry, "cpus");
  if (!count || *count == 0 || cpus.empty()) return;
  info->cpu_masks[*pid] = {*count, std::move(cpus)};
}

}  // namespace proftrace
