// Makes the confinements of the processes that read captures: which files they can reach
// (userspace/sandbox).
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

// Confines a process that reads these captures and writes to `output`: a directory, a file, or an
// existing device or pipe; empty: the current directory.
Confinement OfExport(const std::vector<std::string>& captures, const std::string& output);

// Confines a process that already has the capture open, and the descriptor `directory` of the
// directory that its outputs go into.
Confinement OfExport(int directory);

}  // namespace proftrace
