// The last words of a GPU agent as an entry of metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json GpuAgentToJson(const GpuAgent& agent);

// Adds an entry; the last one of an agent counts.
void MergeGpuAgent(const nlohmann::json& entry, RecordingInfo* info);

}  // namespace proftrace
