// How a capture file holds a process: the entries "process" and "job" of its metadata.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "userspace/wire/metadata.h"

namespace proftrace {

nlohmann::json JobToJson(const JobIdentity& job);
// Reads a job's identity. Impossible values are left out.
JobIdentity JobFromJson(const nlohmann::json& object);

nlohmann::json ProcessToJson(const ProcessEntry& process);
// Reads a process; fields that are missing or have another type keep their default.
ProcessEntry ProcessFromJson(const nlohmann::json& entry);

}  // namespace proftrace
