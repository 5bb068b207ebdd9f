// How `proftrace dump` shows what it has read: as text, and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "userspace/cli/process_dump.h"

namespace proftrace {

// Returns what a thread does: "waits in futex".
std::string WaitText(const DumpedThread& thread);

// Returns the word of a state in documents: "waiting".
std::string_view ThreadStateName(ThreadState state);

// Returns a whole process as text, with names as they are shown.
std::string DumpText(const ProcessDump& dump);
// Print a stack's frames, a line each; a whole process.
void PrintStack(const DumpedStack& stack);
void PrintDump(const ProcessDump& dump);

nlohmann::json StackJson(const DumpedStack& stack);
nlohmann::json DumpJson(const ProcessDump& dump);

}  // namespace proftrace
