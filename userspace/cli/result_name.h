// Names of results that tell the hosts, ranks and attempts of a job apart: on storage that many
// hosts share, one name would be everybody's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "symbols/plan/process.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct ResultNameFacts {
  std::string host;
  std::optional<int64_t> rank;  // nullopt: not known, or it is several
  Pid pid{};
  uint32_t attempt = 0;  // how often the launcher has restarted the job
};

// Returns what names results of this host; a command has the rank that this program's launcher gave
// it.
ResultNameFacts OwnNameFacts(bool of_command);
// Takes what names the result of a running process. `is_alone`: no other is recorded with it.
void TakeJob(const ProcessInfo& info, bool is_alone, ResultNameFacts* facts);

// Returns `pattern` with %h (host), %r (rank; "none" where it has none), %p (PID), %a (attempt) and
// %% (%) replaced. Fails with kUsage where another character follows a %.
absl::StatusOr<std::string> ResultNameOf(const std::string& pattern, const ResultNameFacts& facts);

// Returns the name of a result that has none of the user's, in which what is not known is left out:
// "proftrace-python3-node1-rank3-attempt1-4711-20261121T120000Z". It has no character that a file
// name should not have.
std::string DefaultResultName(const std::string& comm, const ResultNameFacts& facts);

}  // namespace proftrace
