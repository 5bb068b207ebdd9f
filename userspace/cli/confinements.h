// Tells what the processes that read captures can reach (userspace/sandbox).
#pragma once

#include <string>
#include <vector>

#include "userspace/cli/result_directory.h"
#include "userspace/sandbox/confined.h"

namespace proftrace {

// Confines a process that writes a recording's outputs into its directory.
Confinement OfRecording(const ResultDirectory& directory);

// Confines a process that reads these captures and prints.
Confinement OfReport(const std::vector<std::string>& captures);

// Confines a process that reads these captures and writes to `output`: a directory, a file, or what
// is there and is neither; empty: the current directory.
Confinement OfExport(const std::vector<std::string>& captures, const std::string& output);

// Confines a process that has the capture open, and the directory that its outputs belong into.
Confinement OfExport(int directory);

}  // namespace proftrace
