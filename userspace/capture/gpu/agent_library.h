// Gives access to the GPU agent's library: as bytes, which are part of this program, and as a file.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace proftrace {

// Returns the bytes of the agent's library, which are part of the program.
std::string_view AgentLibrary();

// Returns the first 16 digits of the agent's build id.
absl::StatusOr<std::string> AgentBuildId();

// Returns the path of a file of the same build id, beside the program or where it is installed
// ("../lib/proftrace"); empty: there is none. The CUDA driver of a job that the program starts
// loads it by its path. Running jobs get the bytes.
std::string FindAgentFile();

}  // namespace proftrace
