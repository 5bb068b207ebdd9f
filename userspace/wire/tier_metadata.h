// How a capture file holds the choice of `--tier auto`: the entry "tier_choice" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json TierChoiceToJson(const TierChoice& choice);
// Reads a choice; fields that are missing or have another type keep their default.
TierChoice TierChoiceFromJson(const nlohmann::json& entry);

}  // namespace proftrace
