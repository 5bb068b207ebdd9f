// How a capture file holds quotas of CPU time: the entries "cpu_groups" (the control groups above a
// process) and "cpu_quotas" (a snapshot) of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json CpuGroupsToJson(Pid pid, const std::optional<std::vector<std::string>>& groups);
nlohmann::json CpuQuotasToJson(const CpuQuotaSnapshot& snapshot);

// Adds an entry; an impossible one is left out.
void MergeCpuGroups(const nlohmann::json& entry, RecordingInfo* info);
void MergeCpuQuotas(const nlohmann::json& entry, RecordingInfo* info);

}  // namespace proftrace
