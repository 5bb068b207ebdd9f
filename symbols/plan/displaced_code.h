// Finds libraries whose code a process runs from somewhere else than their files: copied to
// anonymous memory, so that it lies in huge pages (BOLT's --hugify, HHVM, ClickHouse), or to a
// memfd. No executable mapping of the file is left then, and the kernel's probes of the file are
// never hit.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/process_maps.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns the paths of such files, each once. `mappings`: all of a process, ascending by address. A
// file that still has a part of its code mapped is left out.
std::vector<std::string> FindDisplacedCode(const std::vector<Mapping>& mappings);

// Fails with kHostUnfit where a library of PyTorch is among `displaced`, the files of a process in
// which no operator was found.
absl::Status CheckTorchHasCode(Pid pid, const std::vector<std::string>& displaced);
// Adds what a plan lacks that was made in spite of such files.
void AddDisplacedGaps(Pid pid, const std::vector<std::string>& displaced, ProbePlan* plan);

}  // namespace proftrace
