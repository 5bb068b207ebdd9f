#include "userspace/cli/job_dumps.h"

#include <algorithm>

namespace proftrace {

DumpScope JobDumps::scope() const {
  const bool is_whole =
      std::all_of(hosts.begin(), hosts.end(), [](const DumpHost& host) { return host.is_whole; });
  if (!is_whole) return DumpScope::kChosen;
  return hosts.size() > 1 ? DumpScope::kSeveralHosts : DumpScope::kHost;
}

}  // namespace proftrace
