// Numbers of a process's environment.
#pragma once

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

// Returns the values of `names` that are numbers from 0 on, in their order: of the environment that
// the process was started with, or, where a title has taken its place, of os.environ in its Python.
// nullopt: the process does not have that one, or neither can be read.
std::vector<std::optional<int>> ReadEnvironmentNumbers(Pid pid,
                                                       const std::vector<MappedFile>& files,
                                                       const std::vector<std::string_view>& names);

}  // namespace proftrace
