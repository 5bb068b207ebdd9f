// Makes names of results that tell the hosts, ranks and attempts of a job apart, because on storage
// that many hosts share a single name would be used by all of them.
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
  std::optional<int64_t> rank;  // nullopt where it is not known, or there are several
  Pid pid{};
  uint32_t attempt = 0;  // how often the launcher has restarted the job
};

// Returns the facts for names of results of this host. `of_command`: whether a command is recorded,
// whose rank the launcher of this program has set.
ResultNameFacts OwnNameFacts(bool of_command);
// Sets the facts of a running process. `is_alone`: whether no other process is recorded with it.
void TakeJob(const ProcessInfo& info, bool is_alone, ResultNameFacts* facts);

// Returns `pattern` with %h (host), %r (rank; "none" where it has none), %p (PID), %a (attempt) and
// %% (%) replaced. Fails with kUsage where another character follows a %.
absl::StatusOr<std::string> ResultNameOf(const std::string& pattern, const ResultNameFacts& facts);

// Returns the name for a result where the user gave none:
// "proftrace-python3-node1-rank3-attempt1-4711-20261121T120000Z". Unknown parts are left out. The
// name has only characters that are safe in file names.
std::string DefaultResultName(const std::string& comm, const ResultNameFacts& facts);

}  // namespace proftrace
