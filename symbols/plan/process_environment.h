// Variables of a process's environment.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Splits `text`, which lies where the kernel has the environment (/proc/PID/environ). A process may
// have written a title there (setproctitle), which leaves nothing or parts of it. nullopt: it is no
// environment.
std::optional<std::vector<std::string_view>> SplitEnvironment(std::string_view text);

using Environment = std::map<std::string, std::string, std::less<>>;

// Returns the variables of `names` that are set, with values of up to 256 bytes. A Python's are
// those that os.environ has now, where a job may have set what its launcher did not. Else, or where
// that cannot be read, they are those that the process was started with, if no title is in their
// place.
Environment ReadEnvironment(Pid pid, const std::vector<MappedFile>& files,
                            const std::vector<std::string>& names);

}  // namespace proftrace
