// Joins the dumps of several hosts into one dump, for `proftrace merge`.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "userspace/cli/job_dumps.h"

namespace proftrace {

// Returns whether the files are documents of `proftrace dump -a --json`. Fails with kInputsDisagree
// where only some of them are.
absl::StatusOr<bool> AreDumps(const std::vector<std::string>& paths);

// Reads the documents and joins them. `is_for_text`: keeps only the threads that the text output
// shows.
absl::StatusOr<JobDumps> ReadDumps(const std::vector<std::string>& paths, bool is_for_text);

// Makes one dump of several, whose order does not matter. Fails with kInputsDisagree where a
// process is in two of them, or where they are of different jobs: two dumps have the same rank, no
// job has processes in both, or the ranks of a job contradict each other.
absl::StatusOr<JobDumps> JoinDumps(std::vector<std::pair<std::string, JobDumps>> files);

// Writes the dump as a document into the new file `output`, or prints it. Fails with kUsage where
// the name does not end as that of a JSON file.
absl::Status WriteDumps(const JobDumps& all, const std::string& output, bool as_json);

}  // namespace proftrace
