// Serves a local copy of another program's page (Perfetto's, speedscope's) beside the report.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "userspace/view/served_files.h"

namespace proftrace {

// Adds every file of the folder `path`, and of the folders in it, under `prefix` ("perfetto/").
// Symbolic links are left out. All files are opened here. The page may run its own scripts, and can
// reach nothing but this server. `option` is for messages. Fails with kUsage where the folder is
// not such a copy.
absl::Status AddUiFolder(const std::string& path, const std::string& prefix,
                         const std::string& option, ServedFiles* files);

}  // namespace proftrace
