// How a capture file holds the state of its host: the entries "host_state" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/host_state.h"
#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json HostStateToJson(const HostState& state);
// Adds an entry; an impossible one is left out.
void MergeHostState(const nlohmann::json& entry, RecordingInfo* info);

}  // namespace proftrace
