// What a capture says of quotas of CPU time: entries of the types "cpu_groups" (a process's levels)
// and "cpu_quotas" (a snapshot).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json CpuGroupsToJson(Pid pid, const std::optional<std::vector<std::string>>& groups);
nlohmann::json CpuQuotasToJson(const CpuQuotaSnapshot& snapshot);

// Adds an entry; one that cannot be is passed over.
void MergeCpuGroups(const nlohmann::json& entry, RecordingInfo* info);
void MergeCpuQuotas(const nlohmann::json& entry, RecordingInfo* info);

}  // namespace proftrace
