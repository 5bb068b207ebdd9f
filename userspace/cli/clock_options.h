// The options that say how the clocks of many hosts become one: of `merge` and of `fleet align`.
#pragma once

#include <CLI/CLI.hpp>

#include "userspace/fleet/merged_clock.h"

namespace proftrace {

// Adds --clock and --reference. `options` lives as long as the command.
void AddClockOptions(CLI::App* command, MergedClockOptions* options);

}  // namespace proftrace
