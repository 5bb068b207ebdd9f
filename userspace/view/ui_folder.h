// A local copy of another program's page (Perfetto's, speedscope's), served beside the report.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "userspace/view/served_files.h"

namespace proftrace {

// Adds every file of the folder `path`, and of the folders in it, under `prefix` ("perfetto/").
// Links are left out. All files are opened here. The copy may run its scripts, and can reach
// nothing but this server. `option` is for messages. Fails with kUsage where this is no such copy.
absl::Status AddUiFolder(const std::string& path, const std::string& prefix,
                         const std::string& option, ServedFiles* files);

}  // namespace proftrace
