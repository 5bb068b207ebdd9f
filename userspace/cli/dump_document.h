// The dumps of many processes as a JSON document, which `proftrace dump --json` writes and
// `proftrace merge` reads.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "userspace/cli/job_dumps.h"

namespace proftrace {

nlohmann::json JobJson(const JobDumps& all);

// Returns the same with the members of the only process beside its own.
nlohmann::json ProcessJson(const JobDumps& one);

// Whether a file that begins with `text` is such a document. Its first key says so, also where
// another program has sorted them.
bool IsDumpDocument(std::string_view text);

// Reads a document; what it says of groups and missing ranks is not looked at. `path` is for
// messages. kInputDamaged: it is cut, holds what no dump does, or is of a later version.
absl::StatusOr<JobDumps> ReadDumpDocument(std::string_view text, const std::string& path);

}  // namespace proftrace
