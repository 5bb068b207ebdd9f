// How a capture file tells of a process: the entries "process" and "job" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/wire/metadata.h"

namespace proftrace {

nlohmann::json JobToJson(const JobIdentity& job);
// Values that cannot be are left out.
JobIdentity JobFromJson(const nlohmann::json& object);

nlohmann::json ProcessToJson(const ProcessEntry& process);
// Reads a process; what is missing or of another type is left out.
ProcessEntry ProcessFromJson(const nlohmann::json& entry);

}  // namespace proftrace
