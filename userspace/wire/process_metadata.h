// How a capture file tells of a process: the entry "process" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/wire/metadata.h"

namespace proftrace {

nlohmann::json ProcessToJson(const ProcessEntry& process);
// Reads a process; what is missing or of another type is left out.
ProcessEntry ProcessFromJson(const nlohmann::json& entry);

}  // namespace proftrace
