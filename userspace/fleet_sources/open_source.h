// Opens the inputs of `proftrace merge`, whatever profiler wrote them. The kind is found in the
// file itself, not by its name.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "userspace/collectives/source_input.h"
#include "userspace/fleet_sources/source_observer.h"

namespace proftrace {

struct SourceOptions {
  // Whether the whole part of a file that is damaged in the middle is read; without it such a file
  // is an error. A file whose end is cut off is no error in either case.
  bool salvage = false;
  SourceObserver* observer = nullptr;
  std::string scratch_directory;  // for rows of captures that do not fit in memory; empty: /tmp
};

// Opens a result directory, a capture, a trace in JSON (.json, .json.gz, .pfw, .pfw.gz) or an
// export of Nsight Systems (.sqlite), and reads it once for its facts. The result is never empty: a
// capture gives one input for each rank, and a report one for each process.
//
// Fails with kUsage where there is no file or its kind is not known, and with kInputDamaged.
absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> OpenSources(
    const std::string& path, const SourceOptions& options = {});

// Returns whether the input is a capture or a result directory. Fails as OpenSources() does where
// it cannot be read.
absl::StatusOr<bool> IsCaptureInput(const std::string& path);

// Opens an input that holds one process or rank; fails with kUsage where it holds several.
absl::StatusOr<std::unique_ptr<SourceInput>> OpenSource(const std::string& path,
                                                        const SourceOptions& options = {});

}  // namespace proftrace
