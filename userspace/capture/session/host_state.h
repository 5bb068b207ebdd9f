// Reads the state of the host for a recording: its clocks, and what slows its processors down.
#pragma once

#include <string>

#include "userspace/model/clock_snapshot.h"
#include "userspace/model/host_state.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

// Reads what slows the host's processors and memory down. `root`: a folder that stands for "/".
// What the host does not tell is left out.
HostState ReadHostState(const std::string& root = "");

// Writes the clocks, and the state of the host at that time.
void TellHost(const ClockSnapshot& clocks, MetadataWriter* writer);

}  // namespace proftrace
