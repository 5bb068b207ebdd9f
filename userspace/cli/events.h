// Writes events as JSON on standard output, one object per line (NDJSON): the output of `--json` of
// commands that take some time. The member "event" tells the kind of event; schemas/ describes the
// other members.
#pragma once

#include <nlohmann/json.hpp>

namespace proftrace {

// Writes one line at once. May be called from any thread. `event`: an object with the member
// "event".
void WriteEvent(const nlohmann::ordered_json& event);

}  // namespace proftrace
