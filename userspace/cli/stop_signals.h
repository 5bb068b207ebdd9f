// The signals that end a recording: SIGINT, SIGTERM, SIGHUP.
#pragma once

#include <atomic>

namespace proftrace {

// Makes the first of these signals set StopAsked(). A second signal has its usual effect, unless it
// comes immediately after the first. SIGPIPE is ignored.
void StopOnSignals();

// Returns the flag that asks for the end of the recording. Other code may set it, too.
std::atomic<bool>& StopAsked();

}  // namespace proftrace
