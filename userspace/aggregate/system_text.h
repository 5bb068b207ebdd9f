// Names the rows of system activity.
#pragma once

#include <string>

#include "userspace/model/system_event.h"

namespace proftrace {

// Returns the name of an event: "openat" for a call, the reason for time off the CPU ("lock"),
// "page fault (minor)" or "page fault (major)" for a fault, "io_uring READV" for a request.
std::string SystemEventName(const SystemEvent& event);

}  // namespace proftrace
