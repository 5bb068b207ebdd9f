// Encodes a dump as bytes, in which a worker without rights passes it to the process that compares
// many dumps.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "userspace/cli/process_dump.h"

namespace proftrace {

std::string EncodeDump(const ProcessDump& dump);
// Returns nullopt where the bytes are not a dump.
std::optional<ProcessDump> DecodeDump(std::string_view bytes);

}  // namespace proftrace
