// The signals that end a recording: SIGINT, SIGTERM, SIGHUP.
#pragma once

#include <atomic>

namespace proftrace {

// Lets the first of these signals set StopAsked() from here on; a second one has its usual effect,
// unless it comes at once. SIGPIPE is ignored.
void StopOnSignals();

// May be set by others, too.
std::atomic<bool>& StopAsked();

}  // namespace proftrace
