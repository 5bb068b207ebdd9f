// Writes what happens as JSON, one object a line (NDJSON), on standard output: `--json` of commands
// that take their time. Its "event" says what it is; schemas/ says what else is in it.
#pragma once

#include <nlohmann/json.hpp>

namespace proftrace {

// Writes the line at once, from any thread. `event`: an object with "event".
void WriteEvent(const nlohmann::ordered_json& event);

}  // namespace proftrace
