// What `proftrace merge` makes of the dumps of several hosts: one dump.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "userspace/cli/job_dumps.h"

namespace proftrace {

// Returns whether the files are documents of `proftrace dump -a --json`. kInputsDisagree: some are.
absl::StatusOr<bool> AreDumps(const std::vector<std::string>& paths);

// Reads the documents and joins them. `is_for_text`: only the threads that text shows are kept.
absl::StatusOr<JobDumps> ReadDumps(const std::vector<std::string>& paths, bool is_for_text);

// Makes one dump of several, whose order does not matter. kInputsDisagree: a process is in two of
// them, or they are of different jobs: two have a rank, no job has processes in both, or its ranks
// contradict each other.
absl::StatusOr<JobDumps> JoinDumps(std::vector<std::pair<std::string, JobDumps>> files);

// Writes the dump as a document into the new file `output`, or prints it. kUsage: a name that is
// not of JSON.
absl::Status WriteDumps(const JobDumps& all, const std::string& output, bool as_json);

}  // namespace proftrace
