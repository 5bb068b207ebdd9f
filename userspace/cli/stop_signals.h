// The signals that end a recording: SIGINT, SIGTERM, SIGHUP.
#pragma once

#include <atomic>

namespace proftrace {

// From here on the first of them sets StopAsked(), and a second one has its usual effect, unless it
// comes at once. SIGPIPE is ignored.
void StopOnSignals();

// May be set by others, too.
std::atomic<bool>& StopAsked();

}  // namespace proftrace
