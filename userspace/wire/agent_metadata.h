// How a capture file holds the last state that a GPU agent reported: an entry of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json GpuAgentToJson(const GpuAgent& agent);

// Adds an entry to `info`. An agent's later entry replaces its earlier one.
void MergeGpuAgent(const nlohmann::json& entry, RecordingInfo* info);

}  // namespace proftrace
