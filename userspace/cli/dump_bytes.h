// A dump as bytes: how a worker without rights hands it to the process that compares many.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "userspace/cli/process_dump.h"

namespace proftrace {

std::string EncodeDump(const ProcessDump& dump);
// nullopt: the bytes are no dump.
std::optional<ProcessDump> DecodeDump(std::string_view bytes);

}  // namespace proftrace
