// How a capture file tells how `--tier auto` chose: the entry "tier_choice" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json TierChoiceToJson(const TierChoice& choice);
// Reads a choice; what is missing or of another type is left out.
TierChoice TierChoiceFromJson(const nlohmann::json& entry);

}  // namespace proftrace
