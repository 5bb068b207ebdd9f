// How a capture file holds its host's clocks: the entries "clock" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json ClocksToJson(const ClockSnapshot& clocks);
// Adds a snapshot to `info->clocks`. A snapshot with an impossible value, or of a time before that
// of the last snapshot, is left out as a whole.
void MergeClocks(const nlohmann::json& entry, RecordingInfo* info);

}  // namespace proftrace
