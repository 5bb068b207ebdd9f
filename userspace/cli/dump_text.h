// Shows the dump of a process as text and as JSON, for `proftrace dump`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "userspace/cli/process_dump.h"

namespace proftrace {

// Returns what a thread is doing: "waits in futex".
std::string WaitText(const DumpedThread& thread);

// Returns the word for a state in JSON documents: "waiting".
std::string_view ThreadStateName(ThreadState state);

// Returns the dump of a process as text, with names escaped for a terminal.
std::string DumpText(const ProcessDump& dump);
// Print a stack, one line per frame, or the whole dump of a process.
void PrintStack(const DumpedStack& stack);
void PrintDump(const ProcessDump& dump);

nlohmann::json StackJson(const DumpedStack& stack);
nlohmann::json DumpJson(const ProcessDump& dump);

}  // namespace proftrace
