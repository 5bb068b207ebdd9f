// How rows of system activity are named.
#pragma once

#include <string>

#include "userspace/model/system_event.h"

namespace proftrace {

// Names an event. A call: "openat"; time off the CPU: its reason, "lock"; a fault: "page fault
// (minor)" or "page fault (major)"; a request: "io_uring READV".
std::string SystemEventName(const SystemEvent& event);

}  // namespace proftrace
