// Names of results that tell the hosts, ranks and attempts of a job apart: on storage that many
// hosts share, one name would be everybody's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "userspace/model/ids.h"

namespace proftrace {

struct ResultNameFacts {
  std::string host;
  std::optional<int64_t> rank;  // nullopt: not known, or it is several
  Pid pid{};
  uint32_t attempt = 0;  // how often the launcher has restarted the job
};

// Returns `pattern` with %h (host), %r (rank; "none" where it has none), %p (PID), %a (attempt) and
// %% (%) replaced. Fails with kUsage where another character follows a %.
absl::StatusOr<std::string> ResultNameOf(const std::string& pattern, const ResultNameFacts& facts);

}  // namespace proftrace
