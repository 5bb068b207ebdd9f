// Finds libraries whose code a process does not run from their files, but from a copy in anonymous
// memory, made so that it lies in huge pages (BOLT's --hugify, HHVM, ClickHouse), or in a memfd. No
// executable mapping of the file is left then, and the kernel's probes of the file are never hit.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/process_maps.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns the paths of such files, each once. `mappings`: all mappings of a process, ascending by
// address. A file of whose code a part is still mapped is left out.
std::vector<std::string> FindDisplacedCode(const std::vector<Mapping>& mappings);

// Fails with kHostUnfit where a library of PyTorch is among `displaced`, the files of a process in
// which no operator was found.
absl::Status CheckTorchHasCode(Pid pid, const std::vector<std::string>& displaced);
// Adds to a plan that was made although there are such files what it lacks.
void AddDisplacedGaps(Pid pid, const std::vector<std::string>& displaced, ProbePlan* plan);

}  // namespace proftrace
