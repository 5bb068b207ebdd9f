// How a capture file tells of a budget (--max-overhead): the entry "budget" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json BudgetToJson(const Budget& budget);
// Reads a budget; what is missing or of another type is left out.
Budget BudgetFromJson(const nlohmann::json& entry);

}  // namespace proftrace
