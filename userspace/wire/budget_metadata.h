// How a capture file holds a budget (--max-overhead): the entry "budget" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/model/recording.h"

namespace proftrace {

nlohmann::json BudgetToJson(const Budget& budget);
// Reads a budget; fields that are missing or have another type keep their default.
Budget BudgetFromJson(const nlohmann::json& entry);

}  // namespace proftrace
