#include "userspace/aggregate/cpu_throttling.h"

#include <algorithm>
#include <utility>

namespace proftrace {
namespace {

using Snapshots = std::vector<CpuQuotaSnapshot>;

const CpuQuota* FindGroup(const CpuQuotaSnapshot& snapshot, const std::string& group) {
  const auto found = std::find_if(snapshot.groups.begin(), snapshot.groups.end(),
                                  [&group](const CpuQuota& quota) { return quota.group == group; });
  return found == snapshot.groups.end() ? nullptr : &*found;
}

// Returns the snapshots from the last one before the window to the first one after it.
std::pair<Snapshots::const_iterator, Snapshots::const_iterator> OfWindow(const Snapshots& all,
                                                                         const Window& window) {
  const auto is_before = [](const CpuQuotaSnapshot& snapshot, int64_t time_ns) {
    return snapshot.time_ns < time_ns;
  };
  auto first = std::lower_bound(all.begin(), all.end(), window.start_ns, is_before);
  if (first != all.begin() && (first == all.end() || first->time_ns > window.start_ns)) --first;
  auto end = std::lower_bound(first, all.end(), window.start_ns + window.duration_ns, is_before);
  if (end != all.end()) ++end;
  return {first, end};
}

// Returns the growth of the counters; nullopt: the two snapshots have another group or another
// quota.
std::optional<CpuQuota> GrowthOf(const CpuQuota& first, const CpuQuota& last) {
  if (first.quota_ns != last.quota_ns || first.period_ns != last.period_ns) return std::nullopt;
  if (first.periods > last.periods || first.throttled_periods > last.throttled_periods ||
      first.throttled_ns > last.throttled_ns) {
    return std::nullopt;
  }
  CpuQuota growth = last;
  growth.periods -= first.periods;
  growth.throttled_periods -= first.throttled_periods;
  growth.throttled_ns -= first.throttled_ns;
  return growth;
}

}  // namespace

std::optional<std::vector<CpuQuota>> ThrottlingOf(const RecordingInfo& info, Pid pid) {
  const auto groups = info.cpu_groups.find(Raw(pid));
  if (groups == info.cpu_groups.end()) return std::nullopt;
  const auto [first, end] = OfWindow(info.cpu_quotas, info.window);
  if (end - first < 2) return std::nullopt;
  std::vector<CpuQuota> throttling;
  for (const std::string& group : groups->second) {
    const CpuQuota* from = nullptr;
    const CpuQuota* to = nullptr;
    auto at = first;
    for (; from == nullptr && at != end; ++at) from = FindGroup(*at, group);
    if (from == nullptr) continue;
    for (auto last = end; to == nullptr && last != at; --last) to = FindGroup(*(last - 1), group);
    if (to == nullptr) return std::nullopt;  // only one snapshot has the group
    std::optional<CpuQuota> growth = GrowthOf(*from, *to);
    if (!growth.has_value()) return std::nullopt;
    throttling.push_back(*std::move(growth));
  }
  return throttling;
}

}  // namespace proftrace
