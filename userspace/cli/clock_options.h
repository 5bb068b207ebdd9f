// The options that say how the clocks of many hosts become one: of `merge` and of `fleet align`.
#pragma once

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <string>

#include "userspace/fleet/merged_clock.h"

namespace proftrace {

// One of the modes, or a file.
struct ClockChoice {
  ClockMode mode = ClockMode::kAuto;
  std::string path;  // kGiven
};

// Adds --clock and --reference. Both arguments live as long as the command.
void AddClockOptions(CLI::App* command, ClockChoice* choice, MergedClockOptions* options);

// Takes the choice over into `options`, and reads the file that it names. Fails with kUsage or
// kInputDamaged for a file that holds no clocks.
absl::Status ReadClock(const ClockChoice& choice, MergedClockOptions* options);

}  // namespace proftrace
