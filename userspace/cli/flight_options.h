// --flight-recorder and what goes with it.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/capture/flight_recorder.h"

namespace CLI {
class App;
}

namespace proftrace {

struct FlightArguments {
  std::optional<std::string> window;
  std::string memory = "256M";
  std::vector<std::string> triggers;
  uint32_t most_dumps = 10;
};

void AddFlightOptions(CLI::App* record, FlightArguments* arguments);

// "step>2x", "step>500ms", "exit" or "oom". Fails with kUsage.
absl::StatusOr<FlightTrigger> ParseTrigger(const std::string& text);

// What else the user has chosen.
struct FlightSurroundings {
  bool waits_for_steps = false;  // --steps or --schedule
  bool records_memory = false;
};

// Makes the options; nullopt when there is to be no flight recorder. Fails with kUsage. Where there
// is one, SIGUSR1 asks for dumps from here on.
absl::StatusOr<std::optional<FlightOptions>> MakeFlightOptions(const FlightArguments& arguments,
                                                               const FlightSurroundings& others);

}  // namespace proftrace
