// Numbers of a process's environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/process_maps.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Where the kernel has it (/proc/PID/environ), a process may have written a title (setproctitle),
// which leaves nothing or parts of it. `text`: what is there. Nothing where it is no environment.
std::optional<std::vector<std::string_view>> SplitEnvironment(std::string_view text);

// The values of `names` that are numbers from 0 on, in their order: of the environment that the
// process was started with, or, where a title has taken its place, of os.environ in its Python.
// Nothing for one that it has not, and where neither can be read.
std::vector<std::optional<int>> ReadEnvironmentNumbers(Pid pid,
                                                       const std::vector<MappedFile>& files,
                                                       const std::vector<std::string_view>& names);

}  // namespace proftrace
