// Reads variables of a process's environment.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Splits `text`, the content of /proc/PID/environ, into its entries. A process may have written a
// title over its environment (setproctitle), of which nothing or only parts are left then. nullopt:
// the text is no environment.
std::optional<std::vector<std::string_view>> SplitEnvironment(std::string_view text);

using Environment = std::map<std::string, std::string, std::less<>>;

// Returns the variables of `names` that are set, with values of up to 256 bytes. Takes a Python
// process's variables from the present content of os.environ, because the job may have set
// variables that its launcher did not. For another process, or where os.environ cannot be read,
// takes the variables that the process was started with, if no title was written over them.
Environment ReadEnvironment(Pid pid, const std::vector<MappedFile>& files,
                            const std::vector<std::string>& names);

}  // namespace proftrace
