// How a capture file holds limits of CPU time: the entries "cpu_groups" (the control groups above a
// process), "cpu_quotas" (a snapshot) and "cpu_mask" (the CPUs of a process) of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json CpuGroupsToJson(Pid pid, const std::optional<std::vector<std::string>>& groups);
nlohmann::json CpuQuotasToJson(const CpuQuotaSnapshot& snapshot);
nlohmann::json CpuMaskToJson(Pid pid, const std::optional<CpuMask>& mask);

// Adds an entry; an impossible one is left out.
void MergeCpuGroups(const nlohmann::json& entry, RecordingInfo* info);
void MergeCpuQuotas(const nlohmann::json& entry, RecordingInfo* info);
void MergeCpuMask(const nlohmann::json& entry, RecordingInfo* info);

}  // namespace proftrace
