// The options of `merge` and `fleet align` that say how the clocks of many hosts are put on one
// clock.
#pragma once

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <string>

#include "userspace/fleet/merged_clock.h"

namespace proftrace {

// The value of --clock: one of the modes, or a file.
struct ClockChoice {
  ClockMode mode = ClockMode::kAuto;
  std::string path;  // the file, for kGiven
};

// Adds --clock and --reference. Both arguments must live as long as the command.
void AddClockOptions(CLI::App* command, ClockChoice* choice, MergedClockOptions* options);

// Puts the choice into `options`, and reads the file that it names. Fails with kUsage or
// kInputDamaged for a file that holds no clocks.
absl::Status ReadClock(const ClockChoice& choice, MergedClockOptions* options);

}  // namespace proftrace
