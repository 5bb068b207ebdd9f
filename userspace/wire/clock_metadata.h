// How a capture file tells of its host's clocks: the entries "clock" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json ClocksToJson(const ClockSnapshot& clocks);
// Adds it to `info->clocks`. One with a value that cannot be, or of a time before the last one's,
// is left out as a whole.
void MergeClocks(const nlohmann::json& entry, RecordingInfo* info);

}  // namespace proftrace
