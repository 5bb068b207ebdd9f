// Converts the dumps of many processes to and from the JSON document that `proftrace dump --json`
// writes and `proftrace merge` reads.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "userspace/cli/job_dumps.h"

namespace proftrace {

nlohmann::json JobJson(const JobDumps& all);

// Returns the document of a single process, which also has that process's members at its top level.
nlohmann::json ProcessJson(const JobDumps& one);

// Returns whether a file that begins with `text` is such a document. Its first key tells, even if
// another program has sorted the keys.
bool IsDumpDocument(std::string_view text);

// Reads a document. Its statements about groups and missing ranks are ignored, because they are
// computed anew. `path` is for messages. Fails with kInputDamaged where the document is cut off,
// has contents that no dump has, or is of a later version.
absl::StatusOr<JobDumps> ReadDumpDocument(std::string_view text, const std::string& path);

}  // namespace proftrace
