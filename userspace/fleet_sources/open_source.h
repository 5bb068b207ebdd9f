// Opens what `proftrace merge` is given, whatever wrote it: the kind is found in the file itself,
// not by its name.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "userspace/collectives/source_input.h"

namespace proftrace {

struct SourceOptions {
  // Take what is whole of a file that is damaged in the middle; without it that is an error. What
  // is cut off at the end is no error in either case.
  bool salvage = false;
  std::string scratch_directory;  // for rows of captures that do not fit in memory; empty: /tmp
};

// Opens a result directory, a capture, a trace in JSON (.json, .json.gz, .pfw, .pfw.gz) or an
// export of Nsight Systems (.sqlite), and reads it once for its facts. Never empty: a capture of
// several ranks and a report of several processes give one input each.
//
// Fails with kUsage where nothing is there or nobody knows the kind, and with kInputDamaged.
absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> OpenSources(
    const std::string& path, const SourceOptions& options = {});

// Whether the input is a capture or a result directory. Fails as OpenSources() where it cannot be
// read.
absl::StatusOr<bool> IsCaptureInput(const std::string& path);

// Opens an input that holds one process or rank; fails with kUsage where it holds several.
absl::StatusOr<std::unique_ptr<SourceInput>> OpenSource(const std::string& path,
                                                        const SourceOptions& options = {});

}  // namespace proftrace
